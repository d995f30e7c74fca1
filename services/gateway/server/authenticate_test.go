package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// guarded is a gateway with two API keys: anna may do what concerns ids that begin with anna/, and
// admin everything.
func guarded(t *testing.T, change func(*Config)) (f *fake, g *running, anna, admin string) {
	t.Helper()
	dir := t.TempDir()
	anna, annaLine, _ := security.NewAPIKey("anna")
	admin, adminLine, _ := security.NewAPIKey("admin")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f = newFake(t, 1<<20)
	g = f.startReady(func(c *Config) {
		c.Auth.APIKeys = write("keys", annaLine+"\n"+adminLine+"\n")
		c.Auth.Policy = write("policy.yaml", `
allow:
  - {who: ["key:anna"], types: [Echo], commands: [Do, Get], ids: ["{name}/*"]}
  - {who: ["key:admin"], types: ["*"]}
  - {who: [anonymous], types: [Echo], commands: [Get], ids: [public]}
`)
		if change != nil {
			change(c)
		}
	})
	return f, g, anna, admin
}

// TestUnauthenticatedBodies: the body of a request without valid credentials is not read, in neither API.
func TestUnauthenticatedBodies(t *testing.T) {
	_, g, _, _ := guarded(t, nil)
	for _, path := range []string{"/v1/Echo/anna%2F1/Do", "/twirp/roost.gateway.v1.Entities/AskMany"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		// The body never arrives, so a server that waits for it does not answer.
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n", path)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %+v, %v", path, res, err)
		}
	}
}

func TestAuthentication(t *testing.T) {
	f, g, anna, admin := guarded(t, nil)
	for _, c := range []struct {
		path, token string
		status      int
		want        string // in the answer
	}{
		{"/v1/Echo/anna%2F1/Do", "", 401, `"code":"unauthenticated","msg":"not authenticated: send a token or an API key in the header Authorization: Bearer","meta":{"error":"ROOST-1016","outcome":"not_applied"}`},
		{"/v1/Echo/anna%2F1/Do", "roost_wrong", 401, "ROOST-1016"},
		{"/v1/Echo/anna%2F1/Do", anna, 200, ""},
		{"/v1/Echo/bob%2F1/Do", anna, 403, `"msg":"key:anna may not send Do to Echo/bob/1","meta":{"error":"ROOST-1017","outcome":"not_applied"}`},
		{"/v1/Echo/bob%2F1/Do", admin, 200, ""},
		{"/v1/Other/anna%2F1/Do", anna, 403, "ROOST-1017"},
		{"/v1/Echo/anna%2F1/Drop", anna, 403, "ROOST-1017"},
		{"/v1/Echo/anna%2F1/Drop", admin, 501, "ROOST-1003"},
	} {
		var headers []string
		if c.token != "" {
			headers = []string{"Authorization", "Bearer " + c.token}
		}
		got := g.do(t, "POST", c.path, `"x"`, headers...)
		if got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %d %s, want %d with %q", c.path, got.status, got.body, c.status, c.want)
		}
		if challenge := got.header.Get("WWW-Authenticate"); (c.status == 401) != (challenge == "Bearer") {
			t.Errorf("%s: WWW-Authenticate is %q", c.path, challenge)
		}
	}
	for _, c := range f.seen() {
		if who := c.Envelope.Principal; who != "key:anna" && who != "key:admin" {
			t.Errorf("the region was sent a command of %q", who)
		}
	}
	if got := g.do(t, "GET", "/v1/Echo/public/Get", ""); got.status != 401 {
		t.Errorf("without auth.anonymous, an anonymous request gets %d", got.status)
	}
}

func TestAnonymous(t *testing.T) {
	_, g, _, _ := guarded(t, func(c *Config) { c.Auth.Anonymous = true })
	if got := g.do(t, "GET", "/v1/Echo/public/Get", ""); got.status != 200 {
		t.Errorf("what anonymous senders may do gets %d %s", got.status, got.body)
	}
	if got := g.do(t, "POST", "/v1/Echo/public/Do", `1`); got.status != 403 || !strings.Contains(got.body, "anonymous may not send Do to Echo/public") {
		t.Errorf("what they may not do gets %d %s", got.status, got.body)
	}
	if got := g.do(t, "GET", "/v1/Echo/public/Get", "", "Authorization", "Bearer roost_wrong"); got.status != 401 {
		t.Errorf("a wrong key counts as anonymous: %d", got.status)
	}
}

// TestAuthenticationOfMany: the generic API authenticates the request, and asks the policy for each
// command.
func TestAuthenticationOfMany(t *testing.T) {
	f, g, anna, _ := guarded(t, nil)
	api := gatewayv1.NewEntitiesProtobufClient(g.url, noRedirect)
	many := &gatewayv1.AskManyRequest{}
	for _, id := range []string{"anna/1", "bob/1", "anna/2"} {
		many.Items = append(many.Items, &gatewayv1.AskRequest{Type: "Echo", Id: id, Command: "Do", Payload: []byte("1")})
	}
	if _, err := api.AskMany(context.Background(), many); err == nil || err.(twirp.Error).Code() != twirp.Unauthenticated {
		t.Errorf("without a key: %v", err)
	}
	if n := len(f.seen()); n != 0 {
		t.Errorf("%d commands have reached the region", n)
	}
	ctx, err := twirp.WithHTTPRequestHeaders(context.Background(), http.Header{"Authorization": {"Bearer " + anna}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := api.AskMany(ctx, many)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "permission_denied", ""} {
		if got := r.Results[i].GetError().GetCode(); got != want {
			t.Errorf("item %d: code %q, want %q", i, got, want)
		}
	}
	for _, c := range f.seen() {
		if c.Envelope.Principal != "key:anna" || !strings.HasPrefix(string(c.Envelope.Entity.ID), "anna/") {
			t.Errorf("the region was sent %+v", c.Envelope)
		}
	}
}

// TestDecisionIsForWhatIsRouted: however a path is written, a command reaches the region only if its
// sender may send it to the entity that the region receives.
func TestDecisionIsForWhatIsRouted(t *testing.T) {
	f, g, anna, _ := guarded(t, nil)
	policy, err := security.OpenPolicy(g.cfg.Auth.Policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, prefix := range []string{"/v1/", "//v1/", "/V1/", "v1/", "/v1//", "/./v1/", "/x/../v1/", "/v1/%2e%2e/v1/", "http://other/v1/", "/v1/Echo/../"} {
		for _, id := range []string{"anna/1", "anna%2F1", "bob%2F1", "anna%2f..%2Fbob%2F1", "anna%2F%2e%2e%2Fbob", "anna/%2e%2e/bob%2F1", "ANNA%2F1", "anna%2F1%00", "%61nna%2F1", "anna%252F1", "anna%2F1.", "anna%5C1", "anna;/1", "anna%2F1?id=bob", "anna%2F1%20"} {
			for _, command := range []string{"Do", "do", "Do/", "Do.", "%44o", "Do%00", "Do;x", "Drop"} {
				paths = append(paths, prefix+"Echo/"+id+"/"+command)
			}
		}
	}
	served := 0
	for _, method := range []string{"POST", "GET", "POST-GET"} {
		for _, path := range paths {
			before := len(f.seen())
			method, override, _ := strings.Cut(method, "-")
			status := g.raw(t, method, path, "Authorization: Bearer "+anna, "X-HTTP-Method-Override: "+override)
			for _, c := range f.seen()[before:] {
				e := &c.Envelope
				if err := policy.Check(e); err != nil || e.Principal != "key:anna" {
					t.Errorf("%s %s was routed to %s of %s: %v", method, path, e.Command, e.Entity, err)
				}
				served++
			}
			if status == 200 && len(f.seen()) == before {
				t.Errorf("%s %s was answered 200 without the region", method, path)
			}
		}
	}
	if served == 0 {
		t.Error("no path was served: the test shows nothing")
	}
}

// raw sends a request with a path as it is written, and returns the status of the answer; 0: none.
func (g *running) raw(t *testing.T, method, path string, headers ...string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := "1"
	if method == "GET" {
		body = ""
	}
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n\r\n%s",
		method, path, len(body), strings.Join(headers, "\r\n"), body)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestStoredReplyIsForItsPrincipal: the hash of a command holds its principal, so another principal
// with the same idempotency key gets no stored reply.
func TestStoredReplyIsForItsPrincipal(t *testing.T) {
	f, g, _, admin := guarded(t, func(c *Config) { c.Auth.Anonymous, c.Auth.Policy = true, "" })
	g.do(t, "POST", "/v1/Echo/a/Do", `1`, "Idempotency-Key", "k")
	g.do(t, "POST", "/v1/Echo/a/Do", `1`, "Idempotency-Key", "k", "Authorization", "Bearer "+admin)
	cmds := f.seen()
	if len(cmds) != 2 || cmds[0].Envelope.Hash() == cmds[1].Envelope.Hash() || cmds[0].Envelope.ID != sharding.CommandID("k") {
		t.Errorf("the region was sent %+v", cmds)
	}
}

func TestAuthFilesAreNeeded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Auth.ClientCertificates = true
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "auth.client_certificates needs public.cert and public.ca") {
		t.Errorf("client certificates without TLS: %v", err)
	}
}
