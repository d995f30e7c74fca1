package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/setting"
)

// serve runs a node until the test ends.
func serve(t *testing.T, change func(*serviceConfig), setup func(*Node)) *Node {
	t.Helper()
	config := testConfig()
	if change != nil {
		change(config)
	}
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan *Node, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, "region", config, func(n *Node) error {
			setup(n)
			n.Stage(Stage{Name: "last", Run: func(ctx context.Context) error { ready <- n; <-ctx.Done(); return nil }})
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case n := <-ready:
		// The last stage runs a moment before the node is ready.
		for n.phase.check(ctx) != nil {
			select {
			case err := <-ended:
				ended <- err
				t.Fatal(err)
			case <-time.After(time.Millisecond):
			}
		}
		return n
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return nil
}

// echo answers with the path of the request.
func echo(n *Node) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.EscapedPath())
	})
	n.Handle("/v1/", handler)
	n.Handle("POST /twirp/roost.gateway.v1.Entities/Ask", handler)
}

// TestGuard: web pages of other origins change nothing, whatever host name they use, and
// no path is answered as another one.
func TestGuard(t *testing.T) {
	n := serve(t, func(c *serviceConfig) {
		c.Advertise, c.AllowedHosts = "shop.internal", []string{"Proxy.example:8080"}
		c.AllowedOrigins = []string{"https://shop.example"}
	}, func(n *Node) {
		echo(n)
		ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		n.HandleManagement("POST /do", ok)
		n.HandleManagement("POST /twirp/roost.admin.v1.Admin/Members", ok)
	})
	for _, c := range []struct {
		name, method, addr, path, host string
		headers                        []string
		want                           int
	}{
		{"curl", "POST", n.ServiceAddr(), "/v1/T/a/C", "", nil, 200},
		{"localhost", "POST", n.ServiceAddr(), "/v1/T/a/C", "LOCALHOST:8080", nil, 200},
		{"IPv6", "POST", n.ServiceAddr(), "/v1/T/a/C", "[::1]:8080", nil, 200},
		{"another loopback address", "POST", n.ServiceAddr(), "/v1/T/a/C", "127.9.9.9", nil, 200},
		{"its advertised name", "POST", n.ServiceAddr(), "/v1/T/a/C", "shop.internal:1", nil, 200},
		{"an allowed name", "POST", n.ServiceAddr(), "/v1/T/a/C", "proxy.example", nil, 200},
		{"a name that was bound to 127.0.0.1", "POST", n.ServiceAddr(), "/v1/T/a/C", "evil.example:8080", nil, 403},
		{"reading under it", "GET", n.ServiceAddr(), "/v1/T/a/C", "evil.example", nil, 403},
		{"one that looks like loopback", "GET", n.ServiceAddr(), "/v1/T/a/C", "127.0.0.1.evil.example", nil, 403},
		{"managing under it", "POST", n.ManagementAddr(), "/do", "evil.example", nil, 403},
		{"managing", "POST", n.ManagementAddr(), "/do", "", nil, 200},
		{"a form of another site", "POST", n.ServiceAddr(), "/v1/T/a/C", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port of this machine", "POST", n.ServiceAddr(), "/v1/T/a/C", "", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:3000"}, 403},
		{"an old browser", "POST", n.ServiceAddr(), "/v1/T/a/C", "", []string{"Origin", "https://evil.example"}, 403},
		{"a sandbox", "POST", n.ServiceAddr(), "/v1/T/a/C", "", []string{"Origin", "null"}, 403},
		{"a page of ours", "POST", n.ServiceAddr(), "/v1/T/a/C", "", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://shop.example"}, 200},
		{"which may not manage", "POST", n.ManagementAddr(), "/do", "", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://shop.example"}, 403},
		{"asking first", "OPTIONS", n.ServiceAddr(), "/v1/T/a/C", "", []string{"Origin", "https://shop.example", "Access-Control-Request-Method", "POST"}, 204},
		{"a stranger asking first", "OPTIONS", n.ServiceAddr(), "/v1/T/a/C", "", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 200},
		{"managing from elsewhere", "POST", n.ManagementAddr(), "/do", "", []string{"Origin", "http://localhost:3000"}, 403},
		{"up and down", "POST", n.ServiceAddr(), "/v1/Acc/x/../y/Add", "", nil, 404},
		{"up at the end", "POST", n.ServiceAddr(), "/v1/Acc/x/..", "", nil, 404},
		{"here", "POST", n.ServiceAddr(), "/v1/Acc/./Add", "", nil, 404},
		{"nothing", "POST", n.ServiceAddr(), "/v1/Acc//Add", "", nil, 404},
		{"escaped", "POST", n.ServiceAddr(), "/v1/Acc/x%2F..%2Fy/Add", "", nil, 200},
		{"escaped dots", "POST", n.ServiceAddr(), "/v1/Acc/%2E%2e/Add", "", nil, 200},
		{"more dots", "POST", n.ServiceAddr(), "/v1/Acc/.../..a/Add", "", nil, 200},
		{"an escaped letter", "POST", n.ServiceAddr(), "/v1/Acc/x/%41dd", "", nil, 404},
		{"an escaped letter of a prefix", "POST", n.ServiceAddr(), "/%761/Acc/x/Add", "", nil, 404},
		{"an escaped underscore", "POST", n.ServiceAddr(), "/v1/Acc/x/Add%5fAll", "", nil, 404},
		{"an escaped letter after an invalid path", "POST", n.ServiceAddr(), "/v1/Acc/x%22/%41dd", "", nil, 404},
		{"escapes that are needed", "POST", n.ServiceAddr(), "/v1/Acc/%F0%9F%8D%8C%25%20%3F/Add", "", nil, 200},
		{"managing by an escaped letter", "POST", n.ManagementAddr(), "/d%6f", "", nil, 404},
		{"a service", "POST", n.ServiceAddr(), "/twirp/roost.gateway.v1.Entities/Ask", "", nil, 200},
		{"managing by an escaped dot", "POST", n.ManagementAddr(), "/twirp/roost%2eadmin.v1.Admin/Members", "", nil, 404},
		{"an escaped dot of a service", "POST", n.ServiceAddr(), "/twirp/roost%2Egateway.v1.Entities/Ask", "", nil, 404},
		{"managing up and down", "POST", n.ManagementAddr(), "/a/../do", "", nil, 404},
	} {
		req, err := http.NewRequest(c.method, "http://"+c.addr+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		for i := 0; i < len(c.headers); i += 2 {
			req.Header.Set(c.headers[i], c.headers[i+1])
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		allowed := res.Header.Get("Access-Control-Allow-Origin")
		mine := c.addr == n.ServiceAddr() && req.Header.Get("Origin") == "https://shop.example"
		switch {
		case res.StatusCode != c.want:
			t.Errorf("%s: %d %s, want %d", c.name, res.StatusCode, body, c.want)
		case c.want >= 400 && !bytes.Contains(body, []byte(`"outcome":"not_applied"`)):
			t.Errorf("%s: %s", c.name, body)
		case bytes.Contains(body, []byte(`web pages of \"\"`)):
			t.Errorf("%s: no principal is named in %s", c.name, body)
		case c.want == 200 && c.addr == n.ServiceAddr() && string(body) != c.path:
			t.Errorf("%s: arrived as %s", c.name, body)
		case (allowed != "") != mine || mine && allowed != "https://shop.example":
			t.Errorf("%s: pages of %q may read it", c.name, allowed)
		}
	}
}

// TestNothingIsCached: no answer of a listener may be stored by a cache, whichever handler gives it.
func TestNothingIsCached(t *testing.T) {
	n := serve(t, func(c *serviceConfig) { c.MaxBody, c.AllowedOrigins = 10, []string{"https://shop.example"} }, func(n *Node) {
		echo(n)
		n.Handle("/silent", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		n.Handle("/error", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) }))
		n.Handle("/files/", http.StripPrefix("/files", http.FileServer(http.Dir(t.TempDir()))))
		n.HandleManagement("POST /do", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		n.HandleOperations("/twirp/example.Example/", nil, func(...any) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = twirp.WriteError(w, twirp.NotFoundError("no"))
			})
		})
	})
	for _, c := range []struct {
		method, url string
		headers     map[string]string
		want        int
	}{
		{"GET", n.ServiceAddr() + "/v1/T/a/C", nil, 200},
		{"GET", n.ServiceAddr() + "/silent", nil, 200},
		{"GET", n.ServiceAddr() + "/error", nil, 418},
		{"GET", n.ServiceAddr() + "/files/none", nil, 404},
		{"GET", n.ServiceAddr() + "/none", nil, 404},
		{"GET", n.ServiceAddr() + "/v1//C", nil, 404},
		{"GET", n.ServiceAddr() + "/v1/T/a/C", map[string]string{"Host": "evil.example"}, 403},
		{"POST", n.ServiceAddr() + "/v1/T/a/C", map[string]string{"Origin": "https://evil.example"}, 403},
		{"OPTIONS", n.ServiceAddr() + "/v1/T/a/C", map[string]string{"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}, 204},
		{"GET", n.ManagementAddr() + "/livez", nil, 200},
		{"GET", n.ManagementAddr() + "/readyz", nil, 200},
		{"GET", n.ManagementAddr() + "/metrics", nil, 200},
		{"GET", n.ManagementAddr() + "/version", nil, 200},
		{"GET", n.ManagementAddr() + "/do", nil, 405},
		{"POST", n.ManagementAddr() + "/twirp/example.Example/Do", nil, 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		r.Host = c.headers["Host"]
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.Header.Values("Cache-Control"); res.StatusCode != c.want || len(got) != 1 || got[0] != "no-store" {
			t.Errorf("%s %s: HTTP %d (want %d), Cache-Control %q", c.method, c.url, res.StatusCode, c.want, got)
		}
	}
}

// send begins a request on a connection of its own.
func send(t *testing.T, n *Node, length int, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", n.ServiceAddr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", length, body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// status returns the status of the answer on a connection, or 0 if there was none.
func status(conn net.Conn) int {
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// take reads a body and answers with what went wrong.
func take(n *Node) {
	n.Handle("POST /take", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, err := io.Copy(io.Discard, r.Body); {
		case errors.Is(err, bounded.ErrFull):
			w.WriteHeader(http.StatusTooManyRequests)
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.WriteHeader(http.StatusRequestTimeout)
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
}

// TestBodiesAndMemory: bodies take at most a quarter of the memory limit, and the longest one fits whatever the limit is.
func TestBodiesAndMemory(t *testing.T) {
	for _, c := range []struct{ body, all, limit, want int64 }{
		{4 << 20, 128 << 20, math.MaxInt64, 128 << 20}, {4 << 20, 128 << 20, 1 << 30, 128 << 20},
		{4 << 20, 128 << 20, 224 << 20, 56 << 20}, {4 << 20, 8 << 20, 224 << 20, 8 << 20}, {4 << 20, 128 << 20, 8 << 20, 4 << 20},
	} {
		if got := bodyBytes(&config.Config{MaxBody: setting.Bytes(c.body), BodyBytes: setting.Bytes(c.all)}, c.limit); got != c.want {
			t.Errorf("of %d bytes for bodies, with a memory limit of %d, there are %d, want %d", c.all, c.limit, got, c.want)
		}
	}
}

// TestBodies: the length that a request announces does not count, the bytes that have
// arrived do, until the request is over.
func TestBodies(t *testing.T) {
	n := serve(t, func(c *serviceConfig) { c.MaxBody, c.BodyBytes, c.BodyTimeout = 64<<10, 64<<10, time.Minute }, take)
	var idle []net.Conn
	for range 3 {
		idle = append(idle, send(t, n, 64<<10, strings.Repeat("x", 20<<10)))
	}
	waitFor(t, func() bool { return n.service.bodies.Used() == 60<<10 })
	if got := status(send(t, n, 5<<10, strings.Repeat("x", 5<<10))); got != http.StatusTooManyRequests {
		t.Errorf("a body that does not fit is answered %d", got)
	}
	// A refusal does not wait for the rest of the body.
	if got := status(send(t, n, 60<<10, strings.Repeat("x", 5<<10))); got != http.StatusTooManyRequests {
		t.Errorf("the beginning of a body that does not fit is answered %d", got)
	}
	if got := status(send(t, n, 4<<10, strings.Repeat("x", 4<<10))); got != http.StatusOK {
		t.Errorf("a body that fits is answered %d", got)
	}
	waitFor(t, func() bool { return n.service.bodies.Used() == 60<<10 })
	for _, conn := range idle {
		_ = conn.Close()
	}
	waitFor(t, func() bool { return n.service.bodies.Used() == 0 })
	if got := status(send(t, n, 64<<10, strings.Repeat("x", 64<<10))); got != http.StatusOK {
		t.Errorf("the longest body is, when the others are gone, answered %d", got)
	}
}

// TestBodyTimeout: a body that stops arriving times out, one that arrives slowly does not.
func TestBodyTimeout(t *testing.T) {
	t.Parallel()
	n := serve(t, func(c *serviceConfig) { c.BodyTimeout = time.Second }, take)
	if got := status(send(t, n, 100, "x")); got != http.StatusRequestTimeout {
		t.Errorf("a body that stops is answered %d", got)
	}
	conn := send(t, n, 10, "")
	tick := time.NewTicker(120 * time.Millisecond)
	defer tick.Stop()
	for range 10 { // longer in total than the timeout
		<-tick.C
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if got := status(conn); got != http.StatusOK {
		t.Errorf("a slow body is answered %d", got)
	}
}

// TestConnections: connections above the limit are answered 503 or closed, until others
// have ended.
func TestConnections(t *testing.T) {
	n := serve(t, func(c *serviceConfig) { c.Connections = 8 }, take)
	var open []net.Conn
	for range 8 {
		open = append(open, send(t, n, 10, ""))
	}
	waitFor(t, func() bool { return n.service.clients.open.Load() == 8 })
	if got := status(send(t, n, 1, "x")); got != http.StatusServiceUnavailable {
		t.Errorf("one connection too many is answered %d", got)
	}
	waitFor(t, func() bool { return n.service.clients.open.Load() == 8 })
	for range 20 {
		conn, err := net.Dial("tcp", n.ServiceAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	waitFor(t, func() bool { return n.service.clients.refused.Load() == 21 })
	if got := n.service.clients.open.Load(); got > 10 {
		waitFor(t, func() bool { return n.service.clients.open.Load() <= 10 })
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	waitFor(t, func() bool { return n.service.clients.open.Load() < 8 })
	if got := status(send(t, n, 1, "x")); got != http.StatusOK {
		t.Errorf("below the limit again, a request is answered %d", got)
	}
}

// TestProbesHavePlaces: however many connections to the management listener there are, probes are answered. Idle ones
// are closed first, and requests that are no probes are refused only if all have one.
func TestProbesHavePlaces(t *testing.T) {
	hold, held := make(chan struct{}), atomic.Int64{}
	n := serve(t, func(c *serviceConfig) { c.Management.Connections = 8 }, func(n *Node) {
		n.HandleManagementOpen("/hold", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { held.Add(1); <-hold }))
	})
	clients := &n.management.clients
	var open []net.Conn
	connect := func(request string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", n.ManagementAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if request != "" {
			_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", request)
		}
		return conn
	}
	defer close(hold)
	flood := func() {
		for range 40 {
			open = append(open, connect(""))
		}
		waitFor(t, func() bool { return clients.open.Load() <= 8+8/spare+1 })
	}

	flood()
	for range 20 {
		if got := status(connect("/livez")); got != http.StatusOK {
			t.Fatalf("among idle connections a probe is answered %d", got)
		}
	}
	clients.idleGrace = 1 // as if the grace was over
	if got := status(connect("/version")); got != http.StatusOK {
		t.Errorf("among idle connections a request is answered %d", got)
	}
	for i := range 8 {
		_ = connect("/hold")
		waitFor(t, func() bool { return held.Load() == int64(i)+1 })
	}
	flood()
	for range 20 {
		if got := status(connect("/livez")); got != http.StatusOK {
			t.Fatalf("among requests in progress a probe is answered %d", got)
		}
	}
	if got := status(connect("/version")); got != http.StatusServiceUnavailable {
		t.Errorf("among requests in progress another request is answered %d", got)
	}
	if held.Load() != 8 {
		t.Errorf("%d requests were begun, want 8", held.Load())
	}
	// A body that does not come holds no place: the connection is closed with the refusal.
	conn := connect("")
	if _, err := io.WriteString(conn, "POST /version HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second)) // half of the time that the server has for a request
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a refused connection stays open while its body does not come")
	}
}

// TestNoAnswerOnAClosedConnection: a request that arrives while its connection is closed to make room is not executed,
// so it gets no answer either: an empty one would be a success.
func TestNoAnswerOnAClosedConnection(t *testing.T) {
	n := serve(t, nil, take)
	conn, err := net.Dial("tcp", n.ServiceAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	clients := &n.service.clients
	waitFor(t, func() bool { return clients.open.Load() == 1 })
	for _, of := range clients.known.Range {
		of.(*connection).idle.Store(evicted) // and it is closed only now
	}
	if _, err := io.WriteString(conn, "POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	if got := status(conn); got != 0 {
		t.Errorf("a request that was not executed is answered %d", got)
	}
}

// TestClosingDelaysNobody: a connection is accepted while those that make room for it are closed, although TLS writes
// before it closes, and their clients do not read.
func TestClosingDelaysNobody(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	defer certified.Close()
	synctest.Test(t, func(t *testing.T) {
		side, other := net.Pipe()
		defer other.Close()
		old := tls.Server(side, &tls.Config{Certificates: certified.TLS.Certificates, SessionTicketsDisabled: true})
		go func() { _ = old.Handshake() }()
		if err := tls.Client(other, &tls.Config{InsecureSkipVerify: true}).Handshake(); err != nil {
			t.Fatal(err)
		}
		c := &connections{limit: 1, log: slog.New(slog.DiscardHandler), idleGrace: idleGrace}
		c.enter(t.Context(), old)
		time.Sleep(idleGrace)
		began := time.Now()
		c.enter(t.Context(), side)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a new connection waits %s until another one is closed", waited)
		}
		if got := c.open.Load(); got != 1 {
			t.Errorf("%d connections are counted, want 1", got)
		}
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the old connection is not closed: %v", err)
		}
	})
}

// TestSlowReaders: a slow reader gets all of a long answer, one that stops reading is
// cut off.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const long = 8 << 20
	wrote := make(chan error, 1)
	n := serve(t, func(c *serviceConfig) {
		c.WriteTimeout = time.Second
	}, func(n *Node) {
		n.Handle("GET /long", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, long))
			wrote <- err
		}))
	})
	begin := func() net.Conn {
		conn, err := net.Dial("tcp", n.ServiceAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		if _, err := io.WriteString(conn, "GET /long HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	begin()
	if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an unread answer ends with %v", err)
	}
	slow, got := begin(), 0
	tick := time.NewTicker(40 * time.Millisecond) // 8 MiB take longer than the timeout
	defer tick.Stop()
	buf := make([]byte, 256<<10)
	for {
		<-tick.C
		k, err := io.ReadFull(slow, buf)
		if got += k; err != nil {
			break
		}
	}
	if err := <-wrote; err != nil || got < long {
		t.Errorf("a slow reader got %d bytes, the writer %v", got, err)
	}
}

// TestChunkedRequestEndsConnection: a request with chunks may have had a length, too, which a proxy has believed. So
// nothing that follows it on its connection is taken for a request.
func TestChunkedRequestEndsConnection(t *testing.T) {
	n := serve(t, nil, echo)
	for _, lengths := range []string{"", "Content-Length: 60\r\n"} {
		conn, err := net.Dial("tcp", n.ServiceAddr())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		_, _ = fmt.Fprintf(conn, "POST /v1/first HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/second HTTP/1.1\r\nHost: localhost\r\n\r\n", lengths)
		answer, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil || !bytes.Contains(answer, []byte("/v1/first")) || bytes.Contains(answer, []byte("/v1/second")) {
			t.Errorf("%q: %s, %v", lengths, answer, err)
		}
	}
}

// TestForwardedClients: handlers of the service listener see the client, and not the proxy.
func TestForwardedClients(t *testing.T) {
	var from string
	n := serve(t, func(c *serviceConfig) { c.TrustedProxies = []string{"127.0.0.1"} }, func(n *Node) {
		n.Handle("/from", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { from = r.RemoteAddr }))
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.ServiceAddr()+"/from", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", "198.51.100.1")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if from != "198.51.100.1:0" {
		t.Errorf("the request is from %q", from)
	}
}
