package attack

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	issuerName = "https://login.example"
	audience   = "roost"
	policy     = `
allow:
  - {who: [anonymous], types: ["*"]}
  - {who: ["key:load", "key:flood"], types: [Counter]}
  - {who: ["jwt:https://login.example#*"], types: [Counter], commands: [Get, Add], ids: ["{name}/*"]}
`
)

// issuer makes JSON Web Tokens.
type issuer struct{ key ed25519.PrivateKey }

func newIssuer(t *testing.T, r *rig) *issuer {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	r.write(t, "jwks.json", fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","alg":"EdDSA","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public)))
	return &issuer{key}
}

type object map[string]any

// token makes a token of anna, with changes, signed by sign or by the issuer.
func (i *issuer) token(header, claims object, sign func(signed []byte) []byte) string {
	now := time.Now()
	h := object{"alg": "EdDSA", "kid": "k1", "typ": "JWT"}
	c := object{"iss": issuerName, "aud": audience, "sub": "anna", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix()}
	parts := make([]string, 0, 3)
	for _, p := range []struct{ base, change object }{{h, header}, {c, claims}} {
		for key, value := range p.change { // order-free: a map again
			if p.base[key] = value; value == nil {
				delete(p.base, key)
			}
		}
		text, _ := json.Marshal(p.base)
		parts = append(parts, base64.RawURLEncoding.EncodeToString(text))
	}
	signed := []byte(strings.Join(parts, "."))
	if sign == nil {
		sign = func(signed []byte) []byte { return ed25519.Sign(i.key, signed) }
	}
	return string(signed) + "." + base64.RawURLEncoding.EncodeToString(sign(signed))
}

// authorization: a token that is not right is nobody's, and a path decides about the entity that it is routed to.
func authorization(t *testing.T, r *rig) {
	_, other, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	now := time.Now()
	unsigned := func([]byte) []byte { return nil }
	byPublicKey := func(signed []byte) []byte {
		mac := hmac.New(sha256.New, r.issuer.key.Public().(ed25519.PublicKey))
		mac.Write(signed)
		return mac.Sum(nil)
	}
	forged := map[string]string{
		"none": "", "no token": "x", "two dots": "..", "no algorithm": r.issuer.token(object{"alg": "none"}, nil, unsigned), "no signature": r.issuer.token(nil, nil, unsigned),
		"None": r.issuer.token(object{"alg": "None"}, nil, unsigned), "a symmetric algorithm": r.issuer.token(object{"alg": "HS256"}, nil, byPublicKey),
		"another algorithm": r.issuer.token(object{"alg": "RS256"}, nil, nil), "another key": r.issuer.token(nil, nil, func(s []byte) []byte { return ed25519.Sign(other, s) }),
		"an unknown key": r.issuer.token(object{"kid": "k2"}, nil, nil), "a key of its own": r.issuer.token(object{"jwk": object{"kty": "OKP"}, "kid": "k3"}, nil, nil),
		"another issuer": r.issuer.token(nil, object{"iss": "https://evil.example"}, nil), "another audience": r.issuer.token(nil, object{"aud": "shop"}, nil),
		"no audience": r.issuer.token(nil, object{"aud": nil}, nil), "no end": r.issuer.token(nil, object{"exp": nil}, nil), "no subject": r.issuer.token(nil, object{"sub": nil}, nil),
		"expired": r.issuer.token(nil, object{"exp": now.Add(-time.Hour).Unix()}, nil), "not yet": r.issuer.token(nil, object{"nbf": now.Add(time.Hour).Unix()}, nil),
		"a management token": r.operator, "an unknown API key": "roost_AAAA",
	}
	for what, token := range forged {
		if a := r.command(0, "/v1/Counter/anna%2F1/Get", `{}`, token); a.status != 401 || !strings.Contains(a.body, "ROOST-1016") {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	anna := r.issuer.token(nil, nil, nil)
	paths := []struct {
		path   string
		status []int
	}{
		{"/v1/Counter/anna%2F1/Add", []int{200}}, {"/v1/Counter/anna/1/Add", []int{404}}, {"/v1/Counter/bob%2F1/Add", []int{403}}, {"/v1/Counter/%62ob%2F1/Add", []int{403}},
		{"/v1/Counter/bob%2f1/Add", []int{403}}, {"/v1/Counter/anna%252F1/Add", []int{403}}, {"/v1/Counter/Anna%2F1/Add", []int{403}}, {"/v1/counter/anna%2F1/Add", []int{403, 404}},
		{"/v1/Counter/anna%2F1/add", []int{403, 501}}, {"/v1/Counter/anna%2F1/Add.", []int{400, 403, 501}}, {"/v1/Counter./anna%2F1/Add", []int{400, 403, 404}}, {"/v1/Counter/anna%2F1/Fail", []int{403}},
		{"//v1/Counter/bob%2F1/Add", []int{404}}, {"/v1//Counter/bob%2F1/Add", []int{404}}, {"/v1/Counter/anna/../bob%2F1/Add", []int{404}}, {"/v1/./Counter/bob%2F1/Add", []int{404}},
		{"/v1/Counter/anna%2F..%2Fbob%2F1/Add", []int{200}}, {"/v1/Counter/anna%2F%2E%2E%2F%2E%2E%2Fbob/Add", []int{200}}, {"/v1/Counter/anna/Add", []int{403}}, {"/v1/Counter/annabel%2F1/Add", []int{403}},
		{"/V1/Counter/anna%2F1/Add", []int{404}}, {"/v1/Counter/anna%2F1/Add/", []int{404}}, {"/v1/Counter/anna%2F1/Add?id=bob", []int{400}}, {"/v1/Counter/bob%2F1/Add;x=anna", []int{400, 403, 404}},
		{"/v1/Counter/%00anna%2F1/Add", []int{400, 403}}, {"/v1/Counter/anna%2F1%00/Add", []int{400, 403}}, {"/v1/Counter/anna%2F%ff/Add", []int{400, 403}}, {"/v1/Counter%2Fanna%2F1/bob/Add", []int{400, 403, 404}},
	}
	config := &tls.Config{RootCAs: r.public.Pool(), ServerName: "127.0.0.1"}
	for _, c := range paths {
		const body = `{"delta":1}`
		text, err := raw(config, r.processes["gateway-1"].Service, fmt.Appendf(nil,
			"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-HTTP-Method-Override: GET\r\nX-Original-URL: /v1/Counter/anna%%2F1/Add\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", c.path, anna, len(body), body))
		must(t, err)
		status, _ := strconv.Atoi(text[min(9, len(text)):min(12, len(text))])
		if !slices.Contains(c.status, status) {
			t.Errorf("%s: %.300q, want %v", c.path, text, c.status)
		}
	}
	for _, id := range []string{"bob%2F1", "bob", "Anna%2F1"} {
		if a := r.command(1, "/v1/Counter/"+id+"/Get", `{}`, ""); strings.TrimSpace(a.body) != "0" {
			t.Errorf("the counter %s of somebody else has %s", id, a.body)
		}
	}
	item := `{"type":"Counter","id":"bob/1","command":"Add","payload":"eyJkZWx0YSI6MX0="}`
	if a := r.command(0, "/twirp/roost.gateway.v1.Entities/Ask", item, r.load); a.status != 200 {
		t.Errorf("a client that may: %d %s", a.status, a.body)
	}
	for method, body := range map[string]string{"Ask": item, "Tell": item, "AskMany": `{"items":[` + item + `]}`} {
		if a := r.command(0, "/twirp/roost.gateway.v1.Entities/"+method, body, r.issuer.token(nil, object{"sub": "carol"}, nil)); !strings.Contains(a.body, "ROOST-1017") {
			t.Errorf("by %s: %d %s", method, a.status, a.body)
		}
	}
	t.Logf("%d wrong tokens are refused, %d paths decide about the entity that they lead to", len(forged), len(paths))
}

// ids: an id is only an id, whatever characters it has.
func ids(t *testing.T, r *rig) {
	names := func() (all []string) {
		must(t, filepath.WalkDir(r.data, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && !strings.Contains(path, "journal.db-") && !strings.Contains(path, "lease.db-") {
				all = append(all, path)
			}
			return nil
		}))
		return all
	}
	before := names()
	taken, refused := 0, 0
	for _, id := range []string{
		"../../etc/passwd", "..", ".", "a/../../b", `..\..\b`, "'; DROP TABLE record; --", `" OR 1=1 --`, "$(reboot)", "`id`", "%s%n%d", "{{7*7}}", "${jndi:ldap://x}", "a\x00b", "a\nb",
		"a\r\nX-Evil: 1", "\u202egnp", "\ufeff", "\u0000", "é", "e\u0301", "😀", "\xff\xfe", "\xc0\xaf", "CON", "-rf", "~", "*", "?", "#", "%", "%2e%2e", strings.Repeat("a", 256), strings.Repeat("a", 257),
		strings.Repeat("a", 40<<10), strings.Repeat("a", 1<<20), " ", "<script>alert(1)</script>", "file:///etc/passwd", "a b",
	} {
		path := "/v1/Counter/" + strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
		add := r.command(1, path+"/Add", `{"delta":3}`, "")
		switch {
		case add.status == 200:
			taken++
			if get := r.command(1, path+"/Get", `{}`, ""); strings.TrimSpace(add.body) != "3" || strings.TrimSpace(get.body) != "3" {
				t.Errorf("%.60q: Add answers %s, Get %s: it is another entity", id, add.body, get.body)
			}
		case add.status >= 400 && add.status < 500:
			refused++
		default:
			t.Errorf("%.60q: %d %s %v", id, add.status, add.body, add.err)
		}
		if add.header.Get("X-Evil") != "" {
			t.Errorf("%.60q has become a header", id)
		}
	}
	if after := names(); !slices.Equal(before, after) {
		t.Errorf("files were made: %v, before %v", after, before)
	}
	if taken < 10 || refused < 5 {
		t.Errorf("%d ids are taken, %d refused", taken, refused)
	}
	t.Logf("%d odd ids are entities of their own, %d are refused; no file was made", taken, refused)
}

// rates: one client that sends too much is told to wait; others do not notice.
func rates(t *testing.T, r *rig) {
	limited := 0
	for i := range 200 {
		flood := r.command(0, "/v1/Counter/flood/Get", `{}`, r.flood)
		switch {
		case flood.status == 429 && strings.Contains(flood.body, "ROOST-1018") && flood.header.Get("Retry-After") != "":
			limited++
		case flood.status != 200:
			t.Errorf("the flood is answered %d %s", flood.status, flood.body)
		}
		if i%20 == 19 {
			if a := r.command(0, "/v1/Counter/load/Get", `{}`, r.load); a.status != 200 {
				t.Errorf("another client is answered %d %s", a.status, a.body)
			}
		}
	}
	if limited < 20 {
		t.Errorf("of 200 commands at once, %d are refused; 20 per second are allowed", limited)
	}
	t.Logf("of 200 commands of one principal, %d are refused with Retry-After; the commands of another are all answered", limited)
}

// collisions: thousands of ids that lead to one shard keep out nobody else.
func collisions(t *testing.T, r *rig) {
	var table struct {
		Types []struct {
			Type   string
			Shards uint32
		}
	}
	a := do(r.client, "POST", r.Admin()[0]+"/twirp/roost.admin.v1.Admin/Shards", `{}`, "Content-Type", "application/json")
	must(t, json.Unmarshal([]byte(a.body), &table))
	counter := sharding.TypeDesc{Type: "Counter", Shards: table.Types[0].Shards}
	target := counter.ShardOf("target").Index
	var items []string
	for n := 0; len(items) < 4000; n++ {
		if id := strconv.Itoa(n); counter.ShardOf(sharding.EntityID(id)).Index == target {
			items = append(items, fmt.Sprintf(`{"type":"Counter","id":%q,"command":"Get","payload":"e30="}`, id))
		}
	}
	done := make(chan [2]int)
	go func() {
		answered, refused := 0, 0
		for batch := range slices.Chunk(items, 500) {
			res := r.command(1, "/twirp/roost.gateway.v1.Entities/AskMany", `{"items":[`+strings.Join(batch, ",")+`]}`, "")
			if res.status != 200 {
				t.Errorf("%d %.300s %v", res.status, res.body, res.err)
			}
			errs := strings.Count(res.body, `"executed":"false"`)
			answered, refused = answered+len(batch)-errs, refused+errs
		}
		done <- [2]int{answered, refused}
	}()
	var counts [2]int
	for others, ended := 0, false; !ended || others < 20; others++ {
		id := sharding.EntityID(fmt.Sprintf("other-%d", others))
		if counter.ShardOf(id).Index != target {
			if a := r.command(1, "/v1/Counter/"+string(id)+"/Get", `{}`, ""); a.status != 200 {
				t.Errorf("an entity of another shard: %d %s %v", a.status, a.body, a.err)
			}
		}
		select {
		case counts = <-done:
			ended = true
		default:
		}
	}
	t.Logf("%d ids of one shard: %d answered, %d refused; entities of other shards are all answered", len(items), counts[0], counts[1])
}
