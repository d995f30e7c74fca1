package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestPolicyOfARegion: a region refuses what its own policy forbids, whatever the gateway has
// admitted. Commands that entities send to others are not checked.
func TestPolicyOfARegion(t *testing.T) {
	noneLeft(t)
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(`
allow:
  - {who: ["key:admin"], types: ["*"]}
  - {who: ["key:reader"], types: [Counter], commands: [Get]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t)
	r := start(t, f, "memory:", func(c *Config) { c.Auth.Policy = path })
	e := r.host(1)
	g := r.dial()
	denied := func(a link.Answer, who string) {
		t.Helper()
		if a.Reply.Outcome != sharding.NotApplied || a.Reply.Code != sharding.PermissionDenied || !strings.Contains(a.Reply.Message, who+" may not send") {
			t.Errorf("got %+v", a)
		}
	}
	g.principal = "key:admin"
	g.want(g.keyed(e, "a", "Add", "k1", "5"), sharding.Executed, "5")
	g.principal = "key:reader"
	g.want(g.answer(g.send(e, "a", "Get", "")), sharding.Executed, "5")
	denied(g.keyed(e, "a", "Add", "k2", "5"), "key:reader")
	g.principal = ""
	denied(g.answer(g.send(e, "a", "Get", "")), "anonymous")
	g.principal = "key:admin"
	g.want(g.answer(g.send(e, "a", "Get", "")), sharding.Executed, "5")

	s := r.server.runner.shared
	env := sharding.Envelope{Entity: sharding.Entity{Type: "Counter", ID: "a"}, Command: "Add"}
	if s.forbidden(&env) == nil {
		t.Error("a command without principal is allowed")
	}
	asked, sent, own := env, env, env
	asked.Chain, sent.Version, own.Command = []sharding.Entity{{Type: "Counter", ID: "b"}}, 1, sharding.DeleteCommand
	for _, e := range []*sharding.Envelope{&asked, &sent, &own} {
		if s.forbidden(e) != nil {
			t.Errorf("%+v is forbidden", e)
		}
	}
	g.client.Close()
	r.end()
}
