package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/router/driver"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
	"github.com/roost-cluster/roost/services/gateway"
)

func TestPaths(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	for _, c := range []struct {
		path string
		id   string // of the entity that got the command; empty: none
		want int
	}{
		{"/v1/Echo/a/Do", "a", 200},
		{"/v1/Echo/a%2Fb/Do", "a/b", 200},
		{"/v1/Echo/%2F/Do", "/", 200},
		{"/v1/Echo/a%252Fb/Do", "a%2Fb", 200},
		{"/v1/Echo/a+b%20c/Do", "a+b c", 200},
		{"/v1/Echo/a%3Fb%23c/Do", "a?b#c", 200},
		{"/v1/Echo/gr%C3%BC%C3%9Fe/Do", "grüße", 200},
		{"/v1/Echo/%F0%9F%90%94/Do", "🐔", 200},
		{"/v1/Echo/%2E%2E/Do", "..", 200},
		{"/v1/Echo/%2e/Do", ".", 200},
		{"/v1/Echo/" + strings.Repeat("x", 256) + "/Do", strings.Repeat("x", 256), 200},
		{"/v1/Echo/" + strings.Repeat("x", 257) + "/Do", "", 400},
		{"/v1/Echo/%FF/Do", "", 400},
		{"/v1/Echo/a%00b/Do", "", 400},
		{"/v1/Echo/a%0Ab/Do", "", 400},
		{"/v1/Ec%2Fho/a/Do", "", 400},
		{"/v1/Echo/a/D%20o", "", 400},
		{"/v1/" + strings.Repeat("E", 129) + "/a/Do", "", 400},
		{"/v1/Nobody/a/Do", "", 404},
		{"/v1/Echo/a/Nothing", "", 501},
		{"/v1/Echo/a", "", 404},
		{"/v1/Echo/a/Do/", "", 404},
		{"/v1/Echo/a/b/Do", "", 404},
		{"/v1/", "", 404},
		{"/", "", 404},
		{"/metrics", "", 404},
		{"/v2/Echo/a/Do", "", 404},
		{"/twirp/roost.gateway.v2.Entities/Ask", "", 404},
		{"/v1/Echo/x%2F..%2Fy/Do", "x/../y", 200},
		{"/v1/Echo/x%2F%2Fy/Do", "x//y", 200},
		// Never cleaned into another path.
		{"/v1/Echo//Do", "", 404},
		{"/v1/Echo/../Do", "", 404},
		{"/v1/Echo/./Do", "", 404},
		{"/v1//a/Do", "", 404},
		{"/v1/Echo/x/../y/Do", "", 404},
		{"/v1/Echo/x/../../Echo/y/Do", "", 404},
		{"/v1/Nobody/../Echo/y/Do", "", 404},
		{"//v1/Echo/y/Do", "", 404},
	} {
		before := len(f.seen())
		got := g.do(t, http.MethodPost, c.path, "{}")
		cmds := f.seen()[before:]
		switch {
		case got.status != c.want:
			t.Errorf("%s: %d %s, want %d", c.path, got.status, got.body, c.want)
		case c.id == "" && len(cmds) != 0:
			t.Errorf("%s: reached %s", c.path, cmds[0].Envelope.Entity)
		case c.id != "" && (len(cmds) != 1 || string(cmds[0].Envelope.Entity.ID) != c.id):
			t.Errorf("%s: reached %v, want %q", c.path, cmds, c.id)
		case got.status >= 400 && !strings.Contains(got.body, `"outcome":"not_applied"`):
			t.Errorf("%s: %s", c.path, got.body)
		}
	}
}

// FuzzPath: an escaped id arrives unchanged, or the request is not routed.
func FuzzPath(f *testing.F) {
	for _, id := range []string{"a", "a/b", "x/../y", "x//y", "..", ".", "%2F", "grüße", "a b+c", "//", "\xff", "a?b#c;d=e"} {
		f.Add(id)
	}
	mux := http.NewServeMux()
	var got []string
	mux.HandleFunc("/v1/", func(_ http.ResponseWriter, r *http.Request) {
		if e, command, ok := splitPath(r.URL.EscapedPath()); ok {
			got = []string{string(e.Type), string(e.ID), command}
		}
	})
	f.Fuzz(func(t *testing.T, id string) {
		escaped := url.PathEscape(id)
		r, err := http.NewRequest(http.MethodPost, "http://x/v1/T/"+escaped+"/C", nil)
		if err != nil {
			t.Skip("net/http itself refuses the path")
		}
		got = nil
		mux.ServeHTTP(httptest.NewRecorder(), r)
		switch {
		case got == nil && id != "" && id != "." && id != "..":
			t.Errorf("id %q is not routed", id)
		case got != nil && (got[0] != "T" || got[1] != id || got[2] != "C"):
			t.Errorf("id %q came as %q", id, got)
		}
	})
}

func TestHeaders(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	for _, c := range []struct {
		headers []string
		want    int
		check   func(*sharding.Envelope) bool
	}{
		{nil, 200, func(e *sharding.Envelope) bool {
			return e.Encoding == sharding.JSON && !e.Keyed && !e.Tell && e.ID != "" && e.Trace == "" && string(e.Payload) == "{}"
		}},
		{[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415, nil},
		{[]string{"Content-Type", "multipart/form-data; boundary=x"}, 415, nil},
		{[]string{"Content-Type", "text/plain"}, 415, nil},
		{[]string{"Content-Type", "Application/JSON; charset=utf-8"}, 200, func(e *sharding.Envelope) bool { return e.Encoding == sharding.JSON }},
		{[]string{"Content-Type", "application/protobuf"}, 200, func(e *sharding.Envelope) bool { return e.Encoding == sharding.Protobuf }},
		{[]string{"Content-Type", "application/x-protobuf;x=y"}, 200, func(e *sharding.Envelope) bool { return e.Encoding == sharding.Protobuf }},
		{[]string{"Content-Type", "text/xml"}, 415, nil},
		{[]string{"Content-Type", "application/json; charset=iso-8859-1"}, 415, nil},
		{[]string{"Content-Encoding", "gzip"}, 415, nil},
		{[]string{"Content-Encoding", "identity"}, 200, func(e *sharding.Envelope) bool { return e.Encoding == sharding.JSON }},
		{[]string{"Idempotency-Key", "k1"}, 200, func(e *sharding.Envelope) bool { return e.Keyed && e.ID == "k1" }},
		{[]string{"Idempotency-Key", strings.Repeat("k", 129)}, 400, nil},
		{[]string{"Idempotency-Key", ""}, 400, nil},
		{[]string{"Idempotency-Key", "k1", "Idempotency-Key", "k2"}, 400, nil},
		{[]string{"Roost-Tell", "yes"}, 400, nil},
		{[]string{"Roost-Tell", "1"}, 400, nil},
		{[]string{"Roost-Tell", ""}, 400, nil},
		{[]string{"Roost-Tell", "false"}, 200, func(e *sharding.Envelope) bool { return !e.Tell }},
		{[]string{"Roost-Timeout", ""}, 400, nil},
		{[]string{"Roost-Tell", "true"}, 200, func(e *sharding.Envelope) bool { return e.Tell }},
		{[]string{"Roost-Timeout", "3s"}, 200, func(e *sharding.Envelope) bool {
			left := time.Until(e.Deadline)
			return left > 2*time.Second && left <= 3*time.Second
		}},
		{[]string{"Roost-Timeout", "9999h"}, 200, func(e *sharding.Envelope) bool {
			left := time.Until(e.Deadline)
			return left > 50*time.Second && left <= 60*time.Second
		}},
		{[]string{"Roost-Timeout", "3"}, 400, nil},
		{[]string{"Roost-Timeout", "-3s"}, 400, nil},
		{[]string{"Roost-Timeout", "soon"}, 400, nil},
	} {
		before := len(f.seen())
		got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}", c.headers...)
		cmds := f.seen()[before:]
		switch {
		case got.status != c.want:
			t.Errorf("%v: %d %s", c.headers, got.status, got.body)
		case c.check == nil && len(cmds) != 0:
			t.Errorf("%v: the command was sent", c.headers)
		case c.check != nil && !c.check(&cmds[0].Envelope):
			t.Errorf("%v: %+v", c.headers, cmds[0].Envelope)
		}
	}
}

func TestReplies(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", `{"x":1}`)
	timing := got.header.Get("Server-Timing")
	if got.body != `{"x":1}`+"\n" || got.header.Get("Roost-Outcome") != "executed" || got.header.Get("Content-Type") != "application/json" || got.header["Roost-Region"] != nil ||
		!strings.HasPrefix(timing, "route;dur=") || !strings.Contains(timing, ", mailbox;dur=0.001, handler;dur=0.002, journal;dur=0.003, total;dur=") {
		t.Errorf("%+v", got)
	}
	got = g.do(t, http.MethodPost, "/v1/Echo/a/Do", "\x08\x01", "Content-Type", "application/protobuf")
	if got.body != "\x08\x01" || got.header.Get("Content-Type") != "application/protobuf" {
		t.Errorf("%+v", got)
	}
	long := strings.Repeat("y", 1<<20)
	if got = g.do(t, http.MethodPost, "/v1/Echo/a/Do", long); got.body != long+"\n" {
		t.Errorf("a long payload came back as %d bytes, status %d", len(got.body), got.status)
	}
	if got = g.do(t, http.MethodPost, "/v1/Echo/a/Do", "", "Roost-Tell", "true"); got.status != 202 || got.body != "" || got.header.Get("Roost-Outcome") != "accepted" {
		t.Errorf("an accepted tell: %+v", got)
	}
	if got = g.do(t, http.MethodPost, "/v1/Echo/a/Do", ""); got.status != 200 {
		t.Errorf("an empty reply: %+v", got)
	}
	got = g.do(t, http.MethodPost, "/v1/Echo/a/Do", "", "Content-Type", "application/protobuf")
	if got.status != 200 || got.body != "" || got.header.Get("Content-Type") != "application/protobuf" {
		t.Errorf("an empty message: %+v", got)
	}
	f.reply(sharding.Reply{Outcome: sharding.Executed, Code: sharding.FailedPrecondition, Message: "sold out"})
	got = g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}")
	if got.status != 412 || got.body != `{"code":"failed_precondition","msg":"sold out","meta":{"outcome":"executed"}}`+"\n" {
		t.Errorf("a business error: %+v", got)
	}
	f.reply(sharding.Reject(sharding.UnknownCommand, "region r with version v1 has no command Do of type Echo"))
	got = g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}")
	if got.status != 503 || got.header.Get("Retry-After") != "1" ||
		got.body != `{"code":"unavailable","msg":"region r with version v1 has no command Do of type Echo; another version has it, so send it again later",`+
			`"meta":{"error":"ROOST-1015","outcome":"not_applied","retry_after_ms":"200"}}`+"\n" {
		t.Errorf("a command that the region's version does not have: %+v", got)
	}
}

func TestGet(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	if got := g.do(t, http.MethodGet, "/v1/Echo/a/Get", ""); got.status != 200 {
		t.Errorf("GET of a read-only command: %+v", got)
	}
	before := len(f.seen())
	for method, command := range map[string]string{"GET": "Do", "HEAD": "Get", "PUT": "Do", "DELETE": "Get"} {
		if got := g.do(t, method, "/v1/Echo/a/"+command, ""); got.status != 405 || got.header.Get("Allow") != "POST" {
			t.Errorf("%s %s: %+v", method, command, got)
		}
	}
	if got := g.do(t, http.MethodDelete, "/v1/Echo/a/Get", ""); !strings.Contains(got.body, "DELETE is not served here; use POST, or GET for a read-only command") {
		t.Errorf("DELETE: %+v", got)
	}
	for _, c := range [][3]string{{"GET", "/v1/Echo/a/Get", `{"x":1}`}, {"GET", "/v1/Echo/a/Get?x=1", ""}, {"POST", "/v1/Echo/a/Do?x=1", "{}"}} {
		if got := g.do(t, c[0], c[1], c[2]); got.status != 400 || !strings.Contains(got.body, "POST") {
			t.Errorf("%s: %+v", c, got)
		}
	}
	if got := g.do(t, http.MethodGet, "/v1/Echo/a/Nothing", ""); got.status != 501 {
		t.Errorf("GET of an unknown command: %+v", got)
	}
	if got := g.do(t, http.MethodGet, "/v1/Nobody/a/Get", ""); got.status != 404 {
		t.Errorf("GET of an unknown type: %+v", got)
	}
	if n := len(f.seen()) - before; n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

// TestPlainHeadersWithMessages: the message API refuses headers of the plain API, which
// would have no effect. With a key, repeats would seem safe.
func TestPlainHeadersWithMessages(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	const body = `{"type":"Echo","id":"a","command":"Do"}`
	for name, value := range map[string]string{"Idempotency-Key": "k", "Roost-Tell": "true", "Roost-Timeout": "1s"} {
		got := g.do(t, http.MethodPost, "/twirp/roost.gateway.v1.Entities/Ask", body, "Content-Type", "application/json", name, value)
		if got.status != 400 || !strings.Contains(got.body, name) || !strings.Contains(got.body, `"outcome":"not_applied"`) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if n := len(f.seen()); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

// TestStrangeHeaders: both APIs refuse a header that begins as Roost's own do, and name it.
func TestStrangeHeaders(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	for _, name := range []string{"Roost-Time-Out", "Roost-Idempotency-Key", "Roost-Region"} {
		for path, body := range map[string]string{"/v1/Echo/a/Do": "{}", "/twirp/roost.gateway.v1.Entities/Ask": `{"type":"Echo","id":"a","command":"Do"}`} { // order-free
			got := g.do(t, http.MethodPost, path, body, "Content-Type", "application/json", strings.ToLower(name), "1s")
			if got.status != 400 || !strings.Contains(got.body, "no request header "+name+";") || !strings.Contains(got.body, `"outcome":"not_applied"`) {
				t.Errorf("%s of %s: %+v", name, path, got)
			}
		}
	}
	if n := len(f.seen()); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}", "Roost-Timeout", "5s", "X-Roost-Other", "1"); got.status != 200 {
		t.Errorf("headers that are allowed: %+v", got)
	}
}

func TestTooLong(t *testing.T) {
	f := newFake(t, 1<<19) // the region takes less than the gateway
	g := f.startReady(func(c *Config) { c.MaxPayload = 1 << 20 })
	chunked := func(n int) answered {
		res, err := noRedirect.Post(g.url+"/v1/Echo/a/Do", "application/json", io.LimitReader(strings.NewReader(strings.Repeat("x", n)), 1<<30))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, _ := io.ReadAll(res.Body)
		return answered{res.StatusCode, res.Header, string(b)}
	}
	for what, got := range map[string]answered{
		"long":                  g.do(t, http.MethodPost, "/v1/Echo/a/Do", strings.Repeat("x", 1<<20+1)),
		"chunked":               chunked(1<<20 + 1),
		"longer than a request": chunked(5 << 20),
	} {
		if got.status != 413 || !strings.Contains(got.body, `"outcome":"not_applied"`) || !strings.Contains(got.body, "ROOST-1011") {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := chunked(100); got.status != 200 || len(got.body) != 101 {
		t.Errorf("a short chunked body: %+v", got)
	}
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", strings.Repeat("x", 1<<19+1)); got.status != 400 || !strings.Contains(got.body, `"outcome":"not_applied"`) {
		t.Errorf("what only the region finds too long: %+v", got)
	}
}

// TestClientGone: a request whose connection ends leaves nothing behind, and is never
// answered with an empty success.
func TestClientGone(t *testing.T) {
	f := newFake(t, 1<<20)
	f.answer(func(*link.Conn, link.Command) {}) // never
	g := f.startReady(nil)
	under := func() (n int) {
		_ = g.router.Inside(context.Background(), func() error { n = g.router.Core().Stats().Requests + g.router.Calls(); return nil })
		return n
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "POST /v1/Echo/a/Do HTTP/1.1\r\nHost: localhost\r\nRoost-Timeout: 1m\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "sent", func() bool { return len(f.seen()) == 1 && under() == 2 })
	_ = c.Close()
	eventually(t, "forgotten", func() bool { return under() == 0 })

	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/Echo/a/Do", strings.NewReader("{}"))
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() { g.serveCommand(w, r); close(done) }()
	eventually(t, "sent", func() bool { return len(f.seen()) == 2 })
	cancel()
	<-done
	if w.Code != 408 || !strings.Contains(w.Body.String(), `"outcome":"unknown"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	read := func(path string) string {
		got := g.do(t, http.MethodGet, path, "", "Roost-Timeout", "50ms")
		return strconv.Itoa(got.status) + got.body
	}
	if got := read("/v1/Echo/a/Get"); !strings.HasPrefix(got, "408") || !strings.Contains(got, `"outcome":"not_applied"`) {
		t.Errorf("a read-only command without an answer: %s", got)
	}
}

func TestTrace(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	const id = "0af7651916cd43dd8448eb211c80319c"
	for parent, want := range map[string]string{
		"00-" + id + "-b7ad6b7169203331-01": "00-" + id + "-",
		"00-" + id + "-b7ad6b7169203331-00": "",
		"nonsense":                          "",
	} {
		before := len(f.seen())
		if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}", "traceparent", parent); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		body := `{"type":"Echo","id":"a","command":"Do"}`
		if got := g.do(t, http.MethodPost, "/twirp/roost.gateway.v1.Entities/Ask", body, "traceparent", parent, "Content-Type", "application/json"); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		for _, c := range f.seen()[before:] {
			if trace := c.Envelope.Trace; !strings.HasPrefix(trace, want) || (want == "") != (trace == "") {
				t.Errorf("%s went on as %q", parent, trace)
			}
		}
	}
}

// TestBadNames: each is refused by both APIs, before anything is sent.
func TestBadNames(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	before := len(f.seen())
	api := gatewayv1.NewEntitiesProtobufClient(g.url, http.DefaultClient)
	for what, e := range shardingtest.BadNames() {
		path := "/v1/" + url.PathEscape(string(e.Entity.Type)) + "/" + url.PathEscape(string(e.Entity.ID)) + "/" + url.PathEscape(e.Command)
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
		r.Header["Idempotency-Key"] = []string{string(e.ID)}
		w := httptest.NewRecorder()
		g.serveCommand(w, r)
		want := "bad name"
		if strings.Contains(what, "key") {
			want = `"msg":"the idempotency key `
		}
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no route") || !strings.HasSuffix(what, "empty") {
				t.Errorf("%s: %d %s", what, w.Code, w.Body)
			}
		}
		if strings.HasSuffix(what, "not UTF-8") {
			continue // protobuf does not carry it
		}
		_, err := api.Ask(t.Context(), &gatewayv1.AskRequest{Type: string(e.Entity.Type), Id: string(e.Entity.ID), Command: e.Command, IdempotencyKey: string(e.ID)})
		if err == nil || err.(twirp.Error).Code() != twirp.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(f.seen()) - before; n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

// TestGetBeforeTable: without a table it is not known which commands are read-only, so GET
// is refused at once.
func TestGetBeforeTable(t *testing.T) {
	s := &Server{retryHint: 200}
	s.types.Store(&types{})
	f := s.checkGet(&sharding.Envelope{Entity: sharding.Entity{Type: "Echo", ID: "a"}, Command: "Get"})
	if f == nil || f.code != sharding.Unavailable || f.outcome != sharding.NotApplied || f.retryAfter != 200 {
		t.Errorf("%+v", f)
	}
}

func TestCommandIDs(t *testing.T) {
	s := &Server{cfg: &Config{MaxPayload: 1}, router: newRouter(t, 0)}
	seen := map[sharding.CommandID]bool{}
	for range 100 {
		c := &call{Call: driver.Call{Env: sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "i"}, Command: "C"}}}
		if f := s.check(c, 0); f != nil {
			t.Fatal(f)
		}
		if seen[c.Env.ID] || c.Env.Keyed || !strings.HasPrefix(string(c.Env.ID), "roost:00000000000000ff-") || !utf8.ValidString(string(c.Env.ID)) {
			t.Fatalf("id %q", c.Env.ID)
		}
		seen[c.Env.ID] = true
	}
	s.stopping.Store(true)
	c := &call{Call: driver.Call{Env: sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "i"}, Command: "C"}}}
	if f := s.check(c, 0); f == nil || f.code != sharding.Unavailable || f.outcome != sharding.NotApplied {
		t.Errorf("admitted while stopping: %+v", f)
	}
}

// newRouter returns a router that does not run.
func newRouter(t testing.TB, inbox int) *driver.Driver {
	t.Helper()
	links := link.DefaultConfig()
	links.Cluster, links.Self = "test", sharding.NodeID{UID: 255}
	r, err := driver.New(driver.Config{Core: router.DefaultConfig(), Link: links, Inbox: inbox})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestInbox: what finds no room in the router, or comes when it has ended, is refused.
func TestInbox(t *testing.T) {
	cfg := DefaultConfig()
	s := &Server{cfg: &cfg, router: newRouter(t, 3), retryHint: 200, shedder: shedder{core: gateway.NewShedder(1)}}
	two := []*call{s.newCall(sharding.Envelope{}, time.Time{}), s.newCall(sharding.Envelope{}, time.Time{})}
	s.submit(two...)
	refused := func(calls []*call, code sharding.Code, retryAfter int) {
		t.Helper()
		for _, c := range calls {
			<-c.done
			if f := failureOf(&c.finish); f.code != code || f.outcome != sharding.NotApplied || f.retryAfter != retryAfter {
				t.Errorf("%+v", f)
			}
		}
	}
	more := []*call{s.newCall(sharding.Envelope{}, time.Time{}), s.newCall(sharding.Envelope{}, time.Time{})}
	s.submit(more...) // all or none
	refused(more, sharding.ResourceExhausted, 200)
	s.router.End()
	s.router.Run()
	refused(two, sharding.Unavailable, 0)
	late := s.newCall(sharding.Envelope{}, time.Time{})
	s.submit(late)
	refused([]*call{late}, sharding.Unavailable, 200)
}
