package attack

import (
	"context"
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
	"sync"
	"sync/atomic"
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

// authorization: a wrong token names no principal, and a path decides about the entity that it is routed to.
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
		{"/v1/Counter/anna%2F1/Add", []int{200}}, {"/v1/Counter/anna/1/Add", []int{404}}, {"/v1/Counter/bob%2F1/Add", []int{403}}, {"/v1/Counter/%62ob%2F1/Add", []int{404}},
		{"/v1/Counter/bob%2f1/Add", []int{403}}, {"/v1/Counter/anna%252F1/Add", []int{403}}, {"/v1/Counter/Anna%2F1/Add", []int{403}}, {"/v1/counter/anna%2F1/Add", []int{403, 404}},
		{"/v1/Counter/anna%2F1/add", []int{403, 501}}, {"/v1/Counter/anna%2F1/Add.", []int{400, 403, 501}}, {"/v1/Counter./anna%2F1/Add", []int{400, 403, 404}}, {"/v1/Counter/anna%2F1/Fail", []int{403}},
		{"//v1/Counter/bob%2F1/Add", []int{404}}, {"/v1//Counter/bob%2F1/Add", []int{404}}, {"/v1/Counter/anna/../bob%2F1/Add", []int{404}}, {"/v1/./Counter/bob%2F1/Add", []int{404}},
		{"/v1/Counter/anna%2F..%2Fbob%2F1/Add", []int{200}}, {"/v1/Counter/anna%2F%2E%2E%2F%2E%2E%2Fbob/Add", []int{200}}, {"/v1/Counter/anna/Add", []int{403}}, {"/v1/Counter/annabel%2F1/Add", []int{403}},
		{"/V1/Counter/anna%2F1/Add", []int{404}}, {"/v1/Counter/anna%2F1/Add/", []int{404}}, {"/v1/Counter/anna%2F1/Add?id=bob", []int{400}}, {"/v1/Counter/bob%2F1/Add;x=anna", []int{400, 403, 404}},
		{"/v1/Counter/%00anna%2F1/Add", []int{400, 403}}, {"/v1/Counter/anna%2F1%00/Add", []int{400, 403}}, {"/v1/Counter/anna%2F%ff/Add", []int{400, 403}}, {"/v1/Counter%2Fanna%2F1/bob/Add", []int{400, 403, 404}},
		{"/v1/Counter/anna%2F1/%41dd", []int{404}}, {"/v1/Counter/anna%2F1/Add%2E", []int{404}}, {"/%761/Counter/anna%2F1/Add", []int{404}},
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
			t.Errorf("the counter %s of another client has %s", id, a.body)
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
	for _, name := range []string{"../Counter", "Counter;DROP", "Counter\x00", "\u202eretnuoC", "count\u00e9r", strings.Repeat("T", 10_000), "-", "%2e%2e"} {
		part := strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		for _, path := range []string{"/v1/" + part + "/a/Get", "/v1/Counter/a/" + part} {
			refused++
			if a := r.command(1, path, `{}`, ""); a.status < 400 || a.status == 500 {
				t.Errorf("%.80q: %d %s %v", path, a.status, a.body, a.err)
			}
		}
	}
	if after := names(); !slices.Equal(before, after) {
		t.Errorf("files were made: %v, before %v", after, before)
	}
	if taken < 10 || refused < 5 {
		t.Errorf("%d ids are taken, %d refused", taken, refused)
	}
	t.Logf("%d odd ids are entities of their own, %d ids, types and commands are refused; no file was made", taken, refused)
}

// rates: one client that sends ten times its rate must wait; others do not notice.
func rates(t *testing.T, r *rig) {
	const flooders, each = 8, 75 // 600 commands at once; 50 are allowed, and then 20 per second
	const allowed = 45           // commands of the other client, as fast as it can
	var limited atomic.Int64
	var all sync.WaitGroup
	for range flooders {
		all.Go(func() {
			for range each {
				a := r.command(0, "/v1/Counter/flood/Get", `{}`, r.flood)
				switch {
				case a.status == 429 && strings.Contains(a.body, "ROOST-1018") && a.header.Get("Retry-After") != "":
					limited.Add(1)
				case a.status != 200:
					t.Errorf("the flood is answered %d %s", a.status, a.body)
				}
			}
		})
	}
	all.Go(func() {
		for range allowed {
			if a := r.command(0, "/v1/Counter/load/Get", `{}`, r.load); a.status != 200 {
				t.Errorf("another client is answered %d %s", a.status, a.body)
			}
		}
	})
	all.Wait()
	if limited.Load() < flooders*each/4 {
		t.Errorf("of %d commands at once, only %d are refused", flooders*each, limited.Load())
	}
	// In one request, too, each command counts.
	item := `{"type":"Counter","id":"flood","command":"Get","payload":"e30="}`
	a := r.command(0, "/twirp/roost.gateway.v1.Entities/AskMany", `{"items":[`+strings.TrimSuffix(strings.Repeat(item+",", 500), ",")+`]}`, r.flood)
	many := strings.Count(a.body, "ROOST-1018")
	if a.status != 200 || many < 300 {
		t.Errorf("of 500 commands in one request, %d are refused: %d %.300s", many, a.status, a.body)
	}
	t.Logf("of %d commands of one principal, %d are refused with Retry-After, and of 500 in one request %d; the %d commands of another are all answered", flooders*each, limited.Load(), many, allowed)
}

// collisions: a hundred thousand ids that lead to one shard keep out no others, cost no more than ids of many shards, and
// operators see the shard.
func collisions(t *testing.T, r *rig) {
	const colliding, spread = 100_000, 10_000
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
	same, other := make([]string, 0, colliding), make([]string, 0, 2*spread)
	for n := 0; len(same) < colliding; n++ {
		id := strconv.Itoa(n)
		if counter.ShardOf(sharding.EntityID(id)).Index == target {
			same = append(same, id)
		} else if len(other) < 2*spread {
			other = append(other, id)
		}
	}
	r.askMany(t, other[:spread]) // a region takes each shard over
	usual := r.askMany(t, other[spread:])
	done := make(chan float64)
	go func() { done <- r.askMany(t, same) }()
	var flooded float64
	for others, ended := 0, false; !ended || others < 20; others++ {
		id := sharding.EntityID(fmt.Sprintf("other-%d", others))
		if counter.ShardOf(id).Index != target {
			if a := r.command(1, "/v1/Counter/"+string(id)+"/Get", `{}`, ""); a.status != 200 {
				t.Errorf("an entity of another shard: %d %s %v", a.status, a.body, a.err)
			}
		}
		select {
		case flooded = <-done:
			ended = true
		default:
		}
	}
	// Processor time and not time: how busy the machine is otherwise hardly matters. It is about the order of growth:
	// if each id were compared with all others of the shard, this would be a hundred times as much.
	if flooded > 4*usual {
		t.Errorf("a command for one of %d ids of one shard takes %.0f µs of processors, otherwise %.0f µs", colliding, flooded*1e6, usual*1e6)
	}
	hot := fmt.Sprintf("Counter/%d", target)
	r.seenHot(t, same[:64], hot)
	t.Logf("%d ids of one shard: a command takes %.0f µs of processors, with as many shards as there are %.0f µs; entities of other shards are all answered; roost cluster top and roost cluster doctor name %s", colliding, flooded*1e6, usual*1e6, hot)
}

// askMany reads counters, and returns the processor time of the cluster for each, in seconds. Every command must have
// an answer, though it may be a refusal.
func (r *rig) askMany(t *testing.T, ids []string) float64 {
	processors := func() (seconds float64) {
		for _, name := range []string{"coordinator-1", "region-1", "region-2", "gateway-2"} {
			seconds += r.metric(t, name, "process_cpu_seconds_total")
		}
		return seconds
	}
	before := processors()
	var all sync.WaitGroup
	share := make(chan []string)
	for range 4 {
		all.Go(func() {
			for batch := range share {
				items := make([]string, 0, len(batch))
				for _, id := range batch {
					items = append(items, fmt.Sprintf(`{"type":"Counter","id":%q,"command":"Get","payload":"e30="}`, id))
				}
				res := r.command(1, "/twirp/roost.gateway.v1.Entities/AskMany", `{"items":[`+strings.Join(items, ",")+`]}`, "")
				answered, refused := strings.Count(res.body, `"payload":"MA=="`), strings.Count(res.body, `"outcome":"not_applied"`)
				if res.status != 200 || answered+refused != len(batch) {
					t.Errorf("of %d commands, %d are answered and %d refused: %d %.300s %v", len(batch), answered, refused, res.status, res.body, res.err)
				}
			}
		})
	}
	for batch := range slices.Chunk(ids, 1000) {
		share <- batch
	}
	close(share)
	all.Wait()
	return (processors() - before) / float64(len(ids))
}

// seenHot keeps a shard busy until roost cluster top has it first, and roost cluster doctor reports it as hot.
func (r *rig) seenHot(t *testing.T, ids []string, hot string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for _, id := range ids {
		load.Go(func() {
			for ctx.Err() == nil {
				if a := r.command(1, "/v1/Counter/"+id+"/Rest", `{}`, ""); a.status != 200 {
					t.Errorf("a slow command is answered %d %s %v", a.status, a.body, a.err)
					return
				}
			}
		})
	}
	admin := func(method string) string {
		return do(r.client, "POST", r.Admin()[0]+"/twirp/roost.admin.v1.Admin/"+method, `{}`, "Content-Type", "application/json").body
	}
	eventually(t, "the shard is seen", func() error {
		var top struct {
			Shards []struct {
				Type  string
				Index uint32
			}
		}
		var said struct {
			Advice []struct{ Name, Text string }
		}
		text, doctor := admin("Top"), admin("Examine")
		_, _ = json.Unmarshal([]byte(text), &top), json.Unmarshal([]byte(doctor), &said)
		if len(top.Shards) == 0 || fmt.Sprintf("%s/%d", top.Shards[0].Type, top.Shards[0].Index) != hot {
			return fmt.Errorf("the top is %s", text)
		}
		for _, a := range said.Advice {
			if a.Name == "hot-shard" && strings.Contains(a.Text, hot+" alone") {
				return nil
			}
		}
		return fmt.Errorf("the doctor says %s", doctor)
	})
}
