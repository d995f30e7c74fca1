package membership

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestPostOverhead lets a real agent post to another one, counts every byte of
// their connections, and compares what is not body with what the simulation adds.
func TestPostOverhead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, enough: make(chan struct{})}
	newAgent := func(uid sharding.NodeUID, addr string) *agent.Agent {
		core := gossip.DefaultConfig()
		core.Self, core.Seeds = sharding.NodeID{Addr: addr, UID: uid}, []string{l.Addr().String()}
		core.JoinInterval = 10 * time.Millisecond
		a, err := agent.New(agent.Config{Core: core, Cluster: "roost", TickEvery: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	// The queried one does not run: it takes posts and answers none.
	asked, asking := newAgent(1<<63, l.Addr().String()), newAgent(1<<63+1, "10.0.0.1:7400")
	server := &http.Server{Handler: w.count(asked.Handler())}
	go func() { _ = server.Serve(w) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = asking.Run(ctx) }()
	select {
	case <-w.enough:
	case <-ctx.Done():
	}
	cancel()
	<-ended
	_ = server.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.posts < manyPosts {
		t.Fatalf("only %d posts came", w.posts)
	}
	got := float64(w.bytes-w.bodies) / float64(w.posts)
	if got < 0.95*postOverhead || got > 1.05*postOverhead {
		t.Errorf("HTTP adds %.0f bytes to each of %d posts, the simulation %d", got, w.posts, postOverhead)
	}
}

const manyPosts = 100

// wire counts the bytes of its connections, and of the bodies of posts.
type wire struct {
	net.Listener
	mu                   sync.Mutex
	posts, bytes, bodies int
	enough               chan struct{}
}

func (w *wire) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return counted{c, w}, err
}

func (w *wire) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.bodies += int(r.ContentLength)
		if w.posts++; w.posts == manyPosts {
			close(w.enough)
		}
		w.mu.Unlock()
		next.ServeHTTP(rw, r)
	})
}

type counted struct {
	net.Conn
	w *wire
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.add(n)
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.add(n)
	return n, err
}

func (c counted) add(n int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.bytes += n
}
