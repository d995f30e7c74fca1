package backendurl

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestRedact(t *testing.T) {
	for value, want := range map[string]string{
		"":                       "",
		"memory:":                "memory:",
		"sqlite:/var/lib/a@b.db": "sqlite:/var/lib/a@b.db",
		"sqlite:///var/x:y@z.db": "sqlite:///var/x:y@z.db",
		"sqlite://u:pw@h/x.db":   "sqlite://u:xxxxx@h/x.db",
		"file:/etc/roost/peers":  "file:/etc/roost/peers",
		"static://a:1,region@b:2,coordinator@[::1]:3": "static://a:1,region@b:2,coordinator@[::1]:3",
		"static:a:1,region@b:2":                       "static:a:1,region@b:2",
		"static://a:1,me:pw@b:2":                      "static://a:1,me:xxxxx@b:2",
		"a:1,b:2":                                     "a:1,b:2",
		"postgres://roost@db/roost?sslmode=require":   "postgres://roost@db/roost?sslmode=require",
		"postgres://roost:pw@db:5432/roost?sslmode=x": "postgres://roost:xxxxx@db:5432/roost?sslmode=x",
		"postgres://u:p@w/o:r?d#s,x@a:1,b:2/db?k=v":   "postgres://u:xxxxx@a:1,b:2/db?k=v",
		"postgres://u:p w@db/x":                       "postgres://u:xxxxx@db/x",
		"postgres://db/x?password=pw&sslkey=/k":       "postgres://db/x?password=xxxxx&sslkey=/k",
		"postgres://db/x?pass%77ord=p:w@x":            "postgres://db/x?pass%77ord=xxxxx",
		"postgres://db/x?passfile=/run/p":             "postgres://db/x?passfile=/run/p",
		"consul://h:8500/roost?token=pw&dc=x":         "consul://h:8500/roost?token=xxxxx&dc=x",
		"consul://h/roost?token_file=/run/t":          "consul://h/roost?token_file=/run/t",
		"consul://tok@h:8500/roost":                   "consul://xxxxx@h:8500/roost",
		"https://tok@collector:4318":                  "https://xxxxx@collector:4318",
		"roost:pw@db/roost":                           "roost:xxxxx@db/roost",
		"host=db password=pw user=roost":              "host=db password=xxxxx user=roost",
		"host=db password='p w\\' x' user=roost":      "host=db password=xxxxx user=roost",
	} {
		if got := Redact(value); got != want {
			t.Errorf("Redact(%q) = %q, want %q", value, got, want)
		}
	}
	for text, want := range map[string]string{
		"nothing to hide":  "nothing to hide",
		"at 10:30, a=b":    "at 10:30, a=b",
		"epoch 1.2 at a:1": "epoch 1.2 at a:1",
		`open "etcd://u:pw@h:1/x?tls=on": refused`:           `open "etcd://xxxxx@h:1/x?tls=on": refused`,
		"two: postgres://a:x@h/d and consul://h/y?token=z; ": "two: postgres://a:xxxxx@h/d and consul://h/y?token=xxxxx ",
		"failed: password=pw user=u":                         "failed: password=xxxxx user=u",
	} {
		if got := RedactText(text); got != want {
			t.Errorf("RedactText(%q) = %q, want %q", text, got, want)
		}
	}
}

// A password shows nowhere, whatever characters it has and however it is escaped.
func TestRedactAnyPassword(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	const odd = `:/?#@&=;,%+'"\ .-_~[]`
	for range 4_000 {
		// Two marks, with odd characters around them: a mark that shows is a leak.
		var p strings.Builder
		for _, mark := range []string{"", "Ab1", "Cd2"} {
			p.WriteString(mark)
			for range rng.IntN(3) {
				p.WriteByte(odd[rng.IntN(len(odd))])
			}
		}
		password := p.String()
		for _, format := range []string{
			"postgres://roost:%s@db:5432/roost?sslmode=disable", "etcd://u:%s@h:2379/x", "consul://%s@h:8500/roost", "roost:%s@db/roost",
		} {
			for _, text := range []string{password, url.QueryEscape(password), url.PathEscape(password)} {
				if got := Redact(fmt.Sprintf(format, text)); strings.Contains(got, "Ab1") || strings.Contains(got, "Cd2") {
					t.Fatalf("%s with %q shows as %q (seed %d)", format, text, got, seed)
				}
			}
		}
		raw := "postgres://db/roost?password=" + url.QueryEscape(password)
		if got := Redact(raw); strings.Contains(got, "Ab1") || strings.Contains(got, "Cd2") {
			t.Fatalf("%q shows as %q (seed %d)", raw, got, seed)
		}
	}
}
