package security

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

const policyText = `
allow:
  - {who: ["key:admin"], types: ["*"]}
  - who: ["jwt:https://login.example#*"]
    types: [Cart, Ord*]
    commands: [Get, Add*]
    ids: ["{name}", "{name}/*", "public-*"]
  - {who: [anonymous], types: [Airport], commands: [Get]}
`

func TestPolicy(t *testing.T) {
	p, err := ParsePolicy([]byte(policyText))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who, entity, command string
		want                 bool
	}{
		{"key:admin", "Cart/x", "Delete", true},
		{"key:admin2", "Cart/x", "Delete", false},
		{"jwt:https://login.example#anna", "Cart/anna", "Get", true},
		{"jwt:https://login.example#anna", "Order/anna/1", "AddItem", true},
		{"jwt:https://login.example#anna", "Order/annabel", "Get", false},
		{"jwt:https://login.example#anna", "Order/bob/1", "Get", false},
		{"jwt:https://login.example#anna", "Cart/public-1", "Get", true},
		{"jwt:https://login.example#anna", "Cart/anna", "Delete", false},
		{"jwt:https://login.example#anna", "Account/anna", "Get", false},
		{"jwt:https://login.example.evil#anna", "Cart/anna", "Get", false},
		{"tls:anna", "Cart/anna", "Get", false},
		{"", "Airport/TXL", "Get", true},
		{"", "Airport/TXL", "Land", false},
		{"anonymous", "Airport/TXL", "Get", true},
		{"", "Cart/", "Get", false},
	} {
		typ, id, _ := strings.Cut(c.entity, "/")
		if got := p.Allows(c.who, sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}, c.command); got != c.want {
			t.Errorf("%s to %s of %s: %v, want %v", c.who, c.command, c.entity, got, c.want)
		}
	}
	empty, err := ParsePolicy(nil)
	if err != nil || empty.Allows("key:admin", sharding.Entity{Type: "Cart", ID: "x"}, "Get") {
		t.Errorf("an empty policy allows something: %v", err)
	}
}

func TestBadPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"allow: [{who: [a]}]":                         "who and types must not be empty",
		"allow: [{types: [a]}]":                       "who and types must not be empty",
		"allow: [{who: [a], types: [b*c]}]":           "is not a pattern",
		"allow: [{who: [''], types: [b]}]":            "is not a pattern",
		"allow: [{who: [a], types: [b], verbs: [c]}]": "field verbs not found",
		"deny: []": "field deny not found",
		"- a":      "cannot unmarshal",
	} {
		if _, err := ParsePolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestPolicyFileChanges: a changed policy takes effect, an unusable or missing one does not.
func TestPolicyFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	stamp := time.Now()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stamp = stamp.Add(time.Minute)
		if err := os.Chtimes(path, stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	write(policyText)
	bad := 0
	p, err := OpenPolicy(path, func(error) { bad++ })
	if err != nil {
		t.Fatal(err)
	}
	env := &sharding.Envelope{Entity: sharding.Entity{Type: "Cart", ID: "x"}, Command: "Get", Principal: "key:admin"}
	check := func(want string) {
		t.Helper()
		p.file.Get(time.Now().Add(time.Hour)) // it is looked at again
		switch err := p.Check(env); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
	check("")
	write("allow: {")
	check("")
	check("")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("")
	if bad != 2 {
		t.Errorf("%d reports, want one of each error", bad)
	}
	write("allow: [{who: [anonymous], types: ['*']}]")
	check("key:admin may not send Get to Cart/x")
	env.Principal = ""
	check("")
	var none *PolicyFile
	if none.Check(env) != nil {
		t.Error("without a policy something is refused")
	}
	if p, err := OpenPolicy("", nil); p != nil || err != nil {
		t.Error(p, err)
	}
}

func BenchmarkPolicy(b *testing.B) {
	p, err := ParsePolicy([]byte(policyText))
	if err != nil {
		b.Fatal(err)
	}
	e := sharding.Entity{Type: "Order", ID: "anna/1"}
	for b.Loop() {
		if !p.Allows("jwt:https://login.example#anna", e, "AddItem") {
			b.Fatal("refused")
		}
	}
}
