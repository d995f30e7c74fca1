package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestIdleConnections: thousands of connections that announced long bodies and sent almost
// nothing take little memory, and do not delay others.
func TestIdleConnections(t *testing.T) {
	const connections, limit = 3000, 200 << 20
	f := newFake(t, 1<<20)
	g := f.startReady(func(c *Config) { c.BodyTimeout = time.Minute })
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	before := inUse()
	conns := make([]net.Conn, 0, connections)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range connections {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		path := fmt.Sprintf("/v1/Echo/a%d/Do", i)
		if i%2 == 1 {
			path = "/twirp/roost.gateway.v1.Entities/Ask"
		}
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"pay", path, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all read", func() bool { return g.reading() == connections*(4<<10) }) // a buffer each, whatever length is announced
	took := int64(inUse()) - int64(before)
	t.Logf("%d idle connections take %d MiB", connections, took>>20)
	if took > limit {
		t.Errorf("%d idle connections take %d MiB", connections, took>>20)
	}
	for range 20 {
		if got := g.do(t, http.MethodPost, "/v1/Echo/b/Do", "{}"); got.status != 200 {
			t.Fatalf("in addition: %+v", got)
		}
	}
}

// inUse returns the memory of the process after garbage collection.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// reading returns how many bytes the gateway holds for bodies.
func (g *running) reading() int {
	res, err := http.Get(g.management + "/metrics")
	if err != nil {
		return -1
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, `roost_http_bodies_bytes{roost_cluster="test",roost_listener="service"} `); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int(n)
		}
	}
	return -1
}

// TestBodyBudget: slow senders cannot use up the gateway's memory. Above the budget,
// requests are refused with Retry-After.
func TestBodyBudget(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(func(c *Config) {
		c.MaxBody, c.BodyBytes, c.BodyTimeout = 1<<20, 1<<20+64<<10, time.Minute
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprintf(c, "POST /v1/Echo/a/Do HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 1<<20, strings.Repeat("x", 1000<<10))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "read", func() bool { return g.reading() == 1<<20 }) // the buffer for it
	before := len(f.seen())
	for path, body := range map[string]string{
		"/v1/Echo/b/Do":                        strings.Repeat("1", 100<<10),
		"/twirp/roost.gateway.v1.Entities/Ask": `{"type":"Echo","id":"b","command":"Do","payload":"` + strings.Repeat("A", 100<<10) + `"}`,
	} {
		got := g.do(t, http.MethodPost, path, body, "Content-Type", "application/json")
		if got.status != 429 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, `"resource_exhausted"`) || !strings.Contains(got.body, `"outcome":"not_applied"`) {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if n := len(f.seen()); n != before {
		t.Error("a refused command was sent")
	}
	if got := g.do(t, http.MethodPost, "/v1/Echo/b/Do", "{}"); got.status != 200 {
		t.Errorf("a short body: %+v", got)
	}
	_ = c.Close()
	eventually(t, "given back", func() bool { return g.reading() == 0 })
}

// TestBodyStops: a request whose body stops is answered as definitely not applied.
func TestBodyStops(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(func(c *Config) { c.BodyTimeout = 50 * time.Millisecond })
	for _, path := range []string{"/v1/Echo/a/Do", "/twirp/roost.gateway.v1.Entities/Ask"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", path); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 408 || !strings.Contains(string(body), `"outcome":"not_applied"`) {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// TestTellRegion: replies name the region if the configuration says so.
func TestTellRegion(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(func(c *Config) { c.TellRegion = true })
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.header.Get("Roost-Region") != f.owner.Addr {
		t.Errorf("%+v", got)
	}
}

// TestUnanswered: a read-only command without an answer is rejected, any other is unknown.
func TestUnanswered(t *testing.T) {
	s := &Server{}
	s.types.Store(&types{byName: map[sharding.EntityType]*entityType{"Echo": {desc: sharding.TypeDesc{
		Type: "Echo", Commands: []sharding.CommandDesc{{Name: "Do"}, {Name: "Get", ReadOnly: true}},
	}}}})
	for command, want := range map[string]sharding.Outcome{"Do": sharding.Unknown, "Get": sharding.NotApplied, "Nothing": sharding.Unknown} {
		env := &sharding.Envelope{Entity: sharding.Entity{Type: "Echo"}, Command: command}
		if got := s.unanswered(env, sharding.Unavailable, "gone"); got.Outcome != want {
			t.Errorf("%s: %+v", command, got)
		}
	}
}
