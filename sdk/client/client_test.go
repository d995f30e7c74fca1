package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

var (
	add = entity.Command[int, int]("Counter", "Add")
	get = entity.Command[struct{}, int]("Counter", "Get", entity.ReadOnly())
)

// gateway answers as its script says, one line per request; the last one is
// repeated.
type gateway struct {
	*httptest.Server
	mu       sync.Mutex
	script   []func(http.ResponseWriter, *http.Request)
	requests []*http.Request
}

func newGateway(t *testing.T, script ...func(http.ResponseWriter, *http.Request)) *gateway {
	g := &gateway{script: script}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/{type}/{id}/{command}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		g.mu.Lock()
		g.requests = append(g.requests, r)
		do := g.script[0]
		if len(g.script) > 1 {
			g.script = g.script[1:]
		}
		g.mu.Unlock()
		do(w, r)
	})
	mux.HandleFunc("GET /", reply("5")) // who follows a redirect takes this for an answer
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func reply(body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Roost-Tell") == "true" {
			w.Header().Set("Roost-Outcome", "accepted")
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Roost-Outcome", "executed")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// health answers as the health page of another program does.
func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"UP"}`)
}

// nothing answers as a health page or a default backend does.
func nothing(status int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// page answers like a server that is not a gateway.
func page(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Server", "nginx")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func fail(status int, code, outcome string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"code":%q,"msg":"no","meta":{"outcome":%q,"retry_after_ms":"1"}}`, code, outcome)
	}
}

// lost is the answer to a command whose reply found no room. Without a time to wait a
// repeat would run again.
func lost(retryAfter string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = fmt.Fprintf(w, `{"code":"internal","meta":{"outcome":"executed","error":"ROOST-1014"%s}}`, retryAfter)
	}
}

// expired is the answer to a command whose key is too old.
func expired(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusConflict)
	_, _ = fmt.Fprint(w, `{"code":"aborted","msg":"too old","meta":{"outcome":"unknown","error":"ROOST-1103"}}`)
}

// hangUp breaks the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func dial(t *testing.T, options []client.Option, gateways ...string) *client.Client {
	t.Helper()
	c, err := client.New(gateways, append([]client.Option{client.Retry(time.Millisecond, time.Millisecond)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// keys are the idempotency keys of the requests.
func (g *gateway) keys() (keys []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.requests {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
	}
	return keys
}

func TestOutcomes(t *testing.T) {
	again := `,"retry_after_ms":"1"`
	unavailable, unknown := fail(503, "unavailable", "not_applied"), fail(503, "unavailable", "unknown")
	for name, tc := range map[string]struct {
		script   []func(http.ResponseWriter, *http.Request)
		opts     []entity.CallOption
		read     bool
		requests int
		code     entity.Code
		outcome  entity.Outcome
	}{
		"success":                      {script: []func(http.ResponseWriter, *http.Request){reply("5")}, requests: 1, outcome: entity.Executed},
		"business error":               {script: []func(http.ResponseWriter, *http.Request){fail(412, "failed_precondition", "executed")}, requests: 1, code: entity.FailedPrecondition, outcome: entity.Executed},
		"not applied, permanently":     {script: []func(http.ResponseWriter, *http.Request){fail(400, "invalid_argument", "not_applied")}, requests: 1, code: entity.InvalidArgument, outcome: entity.NotApplied},
		"not applied, for now":         {script: []func(http.ResponseWriter, *http.Request){unavailable, unavailable, reply("5")}, requests: 3, outcome: entity.Executed},
		"unknown, sent again":          {script: []func(http.ResponseWriter, *http.Request){unknown, hangUp, reply("5")}, requests: 3, outcome: entity.Executed},
		"unknown, then not applied":    {script: []func(http.ResponseWriter, *http.Request){unknown, fail(400, "invalid_argument", "not_applied")}, requests: 2, code: entity.InvalidArgument, outcome: entity.Unknown},
		"unknown, key expired":         {script: []func(http.ResponseWriter, *http.Request){unknown, expired, reply("5")}, requests: 2, code: entity.KeyExpired, outcome: entity.Unknown},
		"unkeyed unknown":              {script: []func(http.ResponseWriter, *http.Request){unknown, reply("5")}, opts: []entity.CallOption{entity.NoKey()}, requests: 1, code: entity.Unavailable, outcome: entity.Unknown},
		"unkeyed without an answer":    {script: []func(http.ResponseWriter, *http.Request){hangUp}, opts: []entity.CallOption{entity.NoKey()}, requests: 1, code: entity.Unavailable, outcome: entity.Unknown},
		"unkeyed not applied":          {script: []func(http.ResponseWriter, *http.Request){unavailable, reply("5")}, opts: []entity.CallOption{entity.NoKey()}, requests: 2, outcome: entity.Executed},
		"read-only unknown":            {script: []func(http.ResponseWriter, *http.Request){unknown, reply("5")}, read: true, requests: 2, outcome: entity.Executed},
		"reply lost":                   {script: []func(http.ResponseWriter, *http.Request){lost(again), lost(again), reply("5")}, requests: 3, outcome: entity.Executed},
		"reply lost, then not applied": {script: []func(http.ResponseWriter, *http.Request){lost(again), fail(400, "invalid_argument", "not_applied")}, requests: 2, code: entity.ReplyLost, outcome: entity.Executed},
		"reply lost, nothing stored":   {script: []func(http.ResponseWriter, *http.Request){lost(""), reply("5")}, requests: 1, code: entity.ReplyLost, outcome: entity.Executed},
		"unkeyed reply lost":           {script: []func(http.ResponseWriter, *http.Request){lost(again), reply("5")}, opts: []entity.CallOption{entity.NoKey()}, requests: 1, code: entity.ReplyLost, outcome: entity.Executed},
		"not a gateway":                {script: []func(http.ResponseWriter, *http.Request){func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }}, opts: []entity.CallOption{entity.NoKey()}, requests: 1, code: entity.Unavailable, outcome: entity.Unknown},
		"a redirect is not followed":   {script: []func(http.ResponseWriter, *http.Request){func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }}, opts: []entity.CallOption{entity.NoKey()}, requests: 1, code: entity.Internal, outcome: entity.Unknown},
		"reply too long":               {script: []func(http.ResponseWriter, *http.Request){reply(strings.Repeat("1", 200))}, requests: 1, code: entity.Internal, outcome: entity.Executed},
		"error of a proxy too long": {script: []func(http.ResponseWriter, *http.Request){func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 200), http.StatusBadGateway)
		}}, opts: []entity.CallOption{entity.NoKey()}, requests: 1, code: entity.Unavailable, outcome: entity.Unknown},
		"reply has another value than wanted": {script: []func(http.ResponseWriter, *http.Request){reply(`"x"`)}, requests: 1, code: entity.Internal, outcome: entity.Executed},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, tc.script...)
			c := dial(t, []client.Option{client.MaxReply(100)}, g.URL+"/")
			var err error
			var n int
			if tc.read {
				n, err = get.Call(t.Context(), c, "c1", struct{}{}, tc.opts...)
			} else {
				n, err = add.Call(t.Context(), c, "c1", 5, tc.opts...)
			}
			if entity.CodeOf(err) != tc.code || entity.OutcomeOf(err) != tc.outcome || err == nil && n != 5 {
				t.Errorf("got %d, %v (%s)", n, err, entity.OutcomeOf(err))
			}
			keys := g.keys()
			if len(keys) != tc.requests {
				t.Errorf("%d requests, want %d", len(keys), tc.requests)
			}
			for _, k := range keys {
				if k != keys[0] || (k == "") != (tc.read || len(tc.opts) > 0) {
					t.Errorf("keys are %q: one per call, made once", keys)
				}
			}
		})
	}
}

// TestErrorNumber: the number of an error comes from the gateway, and is empty without one.
func TestErrorNumber(t *testing.T) {
	for _, want := range []string{"ROOST-1005", ""} {
		g := newGateway(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(w, `{"code":"failed_precondition","msg":"no","meta":{"outcome":"not_applied","error":%q}}`, want)
		})
		_, err := add.Call(t.Context(), dial(t, nil, g.URL), "c1", 5)
		var e *entity.Error
		if !errors.As(err, &e) || e.Number != want || e.Code != entity.FailedPrecondition {
			t.Errorf("number %q, want %q: %v", e.Number, want, err)
		}
	}
}

func TestRefusedConnectionCarriedNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	retries := 0
	ctx = client.WithObserver(ctx, func(client.Attempt) { retries++ })
	_, err = add.Call(ctx, dial(t, nil, dead), "c1", 5, entity.NoKey())
	if entity.OutcomeOf(err) != entity.NotApplied || entity.CodeOf(err) != entity.Unavailable && entity.CodeOf(err) != entity.DeadlineExceeded || retries == 0 {
		t.Errorf("got %v (%s) after %d retries", err, entity.OutcomeOf(err), retries)
	}
	// Another gateway is as good.
	g := newGateway(t, reply("5"))
	if n, err := add.Call(t.Context(), dial(t, nil, dead, g.URL), "c1", 5, entity.NoKey()); n != 5 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// TestTheTransportRepeats: net/http sends a request with an idempotency key again when a connection that it has used
// before closes without an answer. A refusal of the second one says nothing about the first one. So does a failure to
// connect for the second one.
func TestTheTransportRepeats(t *testing.T) {
	for name, tc := range map[string]struct {
		last    func(http.ResponseWriter, *http.Request)
		stops   bool // no connection can be made after the first one
		outcome entity.Outcome
	}{
		"refused":         {last: fail(400, "invalid_argument", "not_applied"), outcome: entity.Unknown},
		"refused for now": {last: fail(503, "unavailable", "not_applied"), outcome: entity.Unknown},
		"answered":        {last: reply("5"), outcome: entity.Executed},
		"not reached":     {stops: true, outcome: entity.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			var g *gateway
			g = newGateway(t, reply("5"), func(w http.ResponseWriter, r *http.Request) {
				if tc.stops {
					_ = g.Listener.Close()
				}
				hangUp(w, r) // it has taken effect
			}, tc.last)
			c := dial(t, nil, g.URL)
			if _, err := add.Call(t.Context(), c, "c1", 5); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			retries := 0
			_, err := add.Call(client.WithObserver(ctx, func(client.Attempt) { retries++ }), c, "c1", 5)
			if entity.OutcomeOf(err) != tc.outcome {
				t.Errorf("%v (%s), want %s", err, entity.OutcomeOf(err), tc.outcome)
			}
			if keys := g.keys(); tc.last != nil && len(keys)-2 <= retries {
				t.Errorf("%d requests and %d retries: the transport has repeated none", len(keys), retries)
			}
		})
	}
}

// TestCanceled: a caller that cancels its context gets one code, whenever it does so. The outcome reports whether the
// command may have been sent.
func TestCanceled(t *testing.T) {
	cause := errors.New("the page was closed")
	for name, tc := range map[string]struct {
		script  func(context.CancelCauseFunc) http.HandlerFunc // nil: canceled before the call
		outcome entity.Outcome
	}{
		"before it is sent": {outcome: entity.NotApplied},
		"before the answer": {outcome: entity.Unknown, script: func(cancel context.CancelCauseFunc) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not see that the caller is gone
				cancel(cause)
				<-r.Context().Done()
			}
		}},
		"in the answer": {outcome: entity.Unknown, script: func(cancel context.CancelCauseFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte("5"))
				w.(http.Flusher).Flush()
				time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
				<-r.Context().Done()
			}
		}},
		"before the next attempt": {outcome: entity.NotApplied, script: func(cancel context.CancelCauseFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = fmt.Fprint(w, `{"code":"unavailable","msg":"no","meta":{"outcome":"not_applied","retry_after_ms":"3000"}}`)
			}
		}},
	} { // order-free
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			requests := 0
			g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				tc.script(cancel)(w, r)
			}))
			defer g.Close()
			if tc.script == nil {
				cancel(cause)
			}
			_, err := add.Call(ctx, dial(t, nil, g.URL), "c1", 5)
			if entity.CodeOf(err) != entity.Canceled || entity.OutcomeOf(err) != tc.outcome || (requests == 0) != (tc.script == nil) {
				t.Errorf("%v (%v) after %d requests", err, entity.OutcomeOf(err), requests)
			}
		})
	}
}

// TestNames: what no gateway would take is not sent.
func TestNames(t *testing.T) {
	g := newGateway(t, reply("5"))
	c := dial(t, nil, g.URL)
	for what, err := range map[string]error{
		"an ask of no id":    second(add.Call(t.Context(), c, "", 5)),
		"without key, no id": second(add.Call(t.Context(), c, "", 5, entity.NoKey())),
		"a tell to no id":    add.Tell(t.Context(), c, "", 5),
	} {
		if entity.CodeOf(err) != entity.InvalidArgument || entity.OutcomeOf(err) != entity.NotApplied {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, e := range shardingtest.BadNames() {
		_, err := c.Call(t.Context(), entity.Call{Type: string(e.Entity.Type), ID: string(e.Entity.ID), Command: e.Command, Key: string(e.ID)})
		if entity.CodeOf(err) != entity.InvalidArgument || entity.OutcomeOf(err) != entity.NotApplied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(g.keys()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func second(_ int, err error) error { return err }

// TestNotAGateway: what only a change of a configuration can mend fails at once,
// keyed or not; what a proxy says while its gateways restart is waited out.
func TestNotAGateway(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		says   string // empty: the call is sent again and succeeds
	}{
		"404 of a proxy":     {page(404, "<html>\n<title>Not Found"), `not a Roost gateway: GATEWAY (nginx) answered HTTP 404 Not Found, "<html> <title>Not Found"; check that the base URL`},
		"403 of a proxy":     {page(403, ""), "not a Roost gateway: GATEWAY (nginx) answered HTTP 403 Forbidden; check"},
		"a page":             {page(200, "<html>"), "HTTP 200 OK"},
		"a health page":      {health, "HTTP 200 OK"},
		"a redirect":         {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/login"); w.WriteHeader(302) }, "not a Roost gateway: GATEWAY answered HTTP 302 Found, a redirect to /login; check"},
		"an API of another":  {fail(404, "not_found", "no word of it"), "HTTP 404"},
		"never implemented":  {page(501, ""), "HTTP 501"},
		"502 of a proxy":     {page(502, "<html>"), ""},
		"503 of a proxy":     {page(503, "<html>"), ""},
		"504 of a proxy":     {page(504, "<html>"), ""},
		"too many of others": {page(429, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, tc.answer, reply("5"))
			n, err := add.Call(t.Context(), dial(t, nil, g.URL), "c1", 5)
			requests := len(g.keys())
			switch {
			case tc.says == "" && (n != 5 || err != nil || requests != 2):
				t.Errorf("got %d, %v after %d requests", n, err, requests)
			case tc.says != "" && (requests != 1 || entity.CodeOf(err) != entity.Internal || entity.OutcomeOf(err) != entity.Unknown ||
				!strings.Contains(err.Error(), strings.ReplaceAll(tc.says, "GATEWAY", g.URL))):
				t.Errorf("got %v (%s) after %d requests, want %s", err, entity.OutcomeOf(err), requests, tc.says)
			}
			// One wrong URL among several only costs an attempt.
			if n, err := add.Call(t.Context(), dial(t, nil, newGateway(t, tc.answer).URL, newGateway(t, reply("5")).URL), "c1", 5); n != 5 || err != nil {
				t.Errorf("with another gateway: %d, %v", n, err)
			}
		})
	}
}

// TestWrongScheme: an https URL of a plain listener, an http URL of one with TLS, and one with an untrusted
// certificate, carried nothing and never will.
func TestWrongScheme(t *testing.T) {
	plain := newGateway(t, reply("5"))
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for url, says := range map[string]string{
		strings.Replace(plain.URL, "http:", "https:", 1): "should begin with http://",
		secure.URL: "which certificates the HTTP client trusts",
		strings.Replace(secure.URL, "https:", "http:", 1): "should begin with https://",
	} {
		ctx := client.WithObserver(t.Context(), func(r client.Attempt) { t.Errorf("%s: sent again after %v", url, r.Err) })
		_, err := add.Call(ctx, dial(t, nil, url), "c1", 5)
		if entity.CodeOf(err) != entity.Internal || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "/v1/") {
			t.Errorf("%s: %v", url, err)
		}
		var failed *entity.Error
		if !errors.As(err, &failed) || failed.Outcome != entity.NotApplied {
			t.Errorf("%s: %v, although nothing was sent", url, err)
		}
	}
}

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	server, client := net.Pipe()
	p <- server
	return client, nil
}

// TestTimeoutWithoutAnAnswer: the time is virtual, so that it is over when the
// request waits for its answer and never before it is sent.
func TestTimeoutWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})}
		go func() { _ = server.Serve(l) }()
		defer func() { _ = server.Close() }()
		c := dial(t, []client.Option{
			client.Timeout(30 * time.Millisecond),
			client.HTTP(&http.Client{Transport: &http.Transport{DialContext: l.dial}}),
		}, "http://gateway")
		_, err := add.Call(t.Context(), c, "c1", 5)
		if entity.OutcomeOf(err) != entity.Unknown || entity.CodeOf(err) != entity.DeadlineExceeded {
			t.Errorf("got %v (%s)", err, entity.OutcomeOf(err))
		}
		_, err = get.Call(t.Context(), c, "c1", struct{}{})
		if entity.OutcomeOf(err) != entity.NotApplied || entity.CodeOf(err) != entity.DeadlineExceeded || strings.Contains(err.Error(), "may have been applied") {
			t.Errorf("a read-only command: %v (%s)", err, entity.OutcomeOf(err))
		}
	})
}

// A gateway that answers after its given time is heard, and its answer is
// final.
func TestTheAnswerAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, left := range []time.Duration{200 * time.Millisecond, 5 * time.Second, time.Minute} {
			requests := 0
			c, err := client.New([]string{"http://gateway"}, client.HTTP(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				requests++
				told, err := time.ParseDuration(r.Header.Get("Roost-Timeout"))
				if err != nil {
					t.Error(err)
				}
				const way = 5 * time.Millisecond // there and back
				select {
				case <-time.After(told + way):
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
				w := httptest.NewRecorder()
				fail(408, "deadline_exceeded", "not_applied")(w, r)
				return w.Result(), nil
			})}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), left)
			begin := time.Now()
			_, err = add.Call(ctx, c, "c1", 5)
			cancel()
			if entity.OutcomeOf(err) != entity.NotApplied || entity.CodeOf(err) != entity.DeadlineExceeded || err.Error() != "deadline_exceeded: no" || requests != 1 {
				t.Errorf("%s: got %v (%s) after %s and %d requests", left, err, entity.OutcomeOf(err), time.Since(begin), requests)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSuccessOfOthers: a success of something other than a gateway is not one of the command.
func TestSuccessOfOthers(t *testing.T) {
	for _, status := range []int{200, 201, 202, 204, 206} {
		g := newGateway(t, nothing(status))
		at := dial(t, nil, g.URL)
		if _, err := add.Call(t.Context(), at, "c1", 5, entity.NoKey()); err == nil || entity.OutcomeOf(err) != entity.Unknown {
			t.Errorf("status %d without a body: %v", status, err)
		}
		if err := add.Tell(t.Context(), at, "c1", 5); err == nil {
			t.Errorf("status %d of something other than a gateway, to a Tell", status)
		}
	}
}

func TestRequest(t *testing.T) {
	g := newGateway(t, reply("5"))
	c := dial(t, nil, g.URL)
	ids := []string{"c1", "a/b", "..", ".", "ü ?#%2F", "a/../b"}
	for _, id := range ids {
		if _, err := add.Call(t.Context(), c, id, 5, entity.Key("mine")); err != nil {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if err := add.Tell(t.Context(), c, "c1", 5); err != nil {
		t.Error(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, id := range ids {
		if r := g.requests[i]; r.PathValue("type") != "Counter" || r.PathValue("id") != id || r.PathValue("command") != "Add" {
			t.Errorf("id %q arrives as %q", id, r.PathValue("id"))
		}
	}
	h := g.requests[0].Header
	if d, err := time.ParseDuration(h.Get("Roost-Timeout")); err != nil || d <= 0 || d > 5*time.Second ||
		h.Get("Idempotency-Key") != "mine" || h.Get("Content-Type") != "application/json" || h.Get("Roost-Tell") != "" {
		t.Errorf("headers are %v", h)
	}
	if last := g.requests[len(ids)].Header; last.Get("Roost-Tell") != "true" || last.Get("Idempotency-Key") == "" {
		t.Errorf("headers of a tell are %v", last)
	}
}

// TestTrace: a call continues with the trace of its context, if there is one.
func TestTrace(t *testing.T) {
	type key struct{}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	g := newGateway(t, reply("5"))
	c := dial(t, []client.Option{client.Trace(func(ctx context.Context) string {
		p, _ := ctx.Value(key{}).(string)
		return p
	})}, g.URL)
	for _, ctx := range []context.Context{t.Context(), context.WithValue(t.Context(), key{}, parent)} {
		if _, err := add.Call(ctx, c, "c1", 5); err != nil {
			t.Fatal(err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.requests[0].Header["Traceparent"]; h != nil {
		t.Errorf("without a trace: %v", h)
	}
	if h := g.requests[1].Header["Traceparent"]; len(h) != 1 || h[0] != parent {
		t.Errorf("with a trace: %v", h)
	}
}

func TestToken(t *testing.T) {
	g := newGateway(t, reply("5"))
	var fails error
	c, err := client.New([]string{g.URL}, client.Token(func(context.Context) (string, error) { return "roost_abc", fails }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := add.Call(t.Context(), c, "a", 1); err != nil {
		t.Fatal(err)
	}
	if got := g.requests[0].Header.Get("Authorization"); got != "Bearer roost_abc" {
		t.Errorf("Authorization is %q", got)
	}
	fails = fmt.Errorf("the issuer is away")
	_, err = add.Call(t.Context(), c, "a", 1)
	if failed, ok := err.(*entity.Error); !ok || failed.Code != entity.Unauthenticated || failed.Outcome != entity.NotApplied || !strings.Contains(err.Error(), "the issuer is away") {
		t.Errorf("without a token: %v", err)
	}
	if len(g.requests) != 1 {
		t.Errorf("%d requests were sent, want 1", len(g.requests))
	}
}

func TestNew(t *testing.T) {
	for _, gateways := range [][]string{nil, {"localhost:8080"}, {"ftp://x"}, {"http://"}, {"http://a", "\x7f"}} {
		if _, err := client.New(gateways); err == nil {
			t.Errorf("%q is taken", gateways)
		}
	}
	for _, o := range []client.Option{client.Timeout(0), client.MaxReply(-1), client.Retry(0, time.Second), client.Retry(time.Second, time.Millisecond)} {
		if _, err := client.New([]string{"http://a"}, o); err == nil {
			t.Error("an unusable option is taken")
		}
	}
	given := []string{"http://a/"}
	if _, err := client.New(given); err != nil || given[0] != "http://a/" {
		t.Errorf("the caller's list is now %q, %v", given, err)
	}
}
