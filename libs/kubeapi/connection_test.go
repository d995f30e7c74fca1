package kubeapi

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// pipes is a listener of connections in memory. What is lost does not arrive any more, and nothing says so.
type pipes struct {
	accept chan net.Conn
	ended  chan struct{}
	once   sync.Once

	mu   sync.Mutex
	made []*lossy
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.ended) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	c := &lossy{Conn: client}
	p.mu.Lock()
	p.made = append(p.made, c)
	p.mu.Unlock()
	p.accept <- server
	return c, nil
}

// lose makes all present connections lose sent data.
func (p *pipes) lose() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.made {
		c.mu.Lock()
		c.lost = true
		c.mu.Unlock()
	}
	return len(p.made)
}

type lossy struct {
	net.Conn
	mu   sync.Mutex
	lost bool
}

func (c *lossy) Write(b []byte) (int, error) {
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	if lost {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestConnectionIsLost: the machine of the API server vanishes. The next requests fail, but soon others are on a new
// connection, to the server that has taken its place.
func TestConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{accept: make(chan net.Conn), ended: make(chan struct{})}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.ProtoMajor != 2 {
				t.Errorf("the request is by %s", q.Proto)
			}
			_, _ = w.Write([]byte(`{"kind":"Lease"}`))
		}))
		_ = server.Listener.Close()
		server.Listener, server.EnableHTTP2 = network, true
		server.StartTLS()
		defer server.Close()
		ca := filepath.Join(t.TempDir(), "ca")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		u, err := backendurl.ParseURL("kubernetes://prod?api=https://127.0.0.1:6443&ca=" + ca)
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(u)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		c.transport.DialContext = network.dial
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return c.Do(ctx, http.MethodGet, "coordination.k8s.io/v1", "leases/x", nil, nil)
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		if n := network.lose(); n != 1 {
			t.Fatalf("%d connections", n)
		}
		begun, failed := time.Now(), 0
		for ask() != nil {
			if failed++; time.Since(begun) > time.Minute {
				t.Fatal("after a minute requests are still on the connection that is lost")
			}
			time.Sleep(500 * time.Millisecond)
		}
		if took := time.Since(begun); failed == 0 || took > quiet+2*answerPing {
			t.Errorf("after %d failures and %v a request succeeds", failed, took)
		}
	})
}
