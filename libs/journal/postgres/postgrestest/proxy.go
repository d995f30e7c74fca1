//go:build linux

package postgrestest

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy stands between clients and a server, on TCP. It can fall silent, as a
// firewall does that drops connections, or a network that loses its way.
type Proxy struct {
	tb     testing.TB
	listen net.Listener
	socket string

	mu    sync.Mutex
	conns []*proxied
	mute  bool // new connections are silent too
}

// proxied is one connection of a client.
type proxied struct {
	mu             sync.Mutex
	client, server net.Conn
	mute           bool
}

// NewProxy makes a proxy for the server that lives until the test ends.
func (s *Server) NewProxy(tb testing.TB) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{tb: tb, listen: l, socket: filepath.Join(s.dir, ".s.PGSQL."+port)}
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			c.close()
		}
	})
	go p.accept()
	return p
}

// URL leads a role to a database through the proxy.
func (p *Proxy) URL(role, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(role), Host: p.listen.Addr().String(), Path: "/" + database, RawQuery: "sslmode=disable"}).String()
}

// Silence keeps the connections that there are open and lets nothing through any
// more, in neither direction; if all is set, the same goes for new ones.
func (p *Proxy) Silence(all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = all
	for _, c := range p.conns {
		c.silence()
	}
}

// Heal lets new connections through.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = false
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return // the test is over
		}
		server, err := net.Dial("unix", p.socket)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &proxied{client: client, server: server}
		p.mu.Lock()
		c.mute = p.mute
		p.conns = append(p.conns, c)
		p.mu.Unlock()
		go c.copy(server, client)
		go c.copy(client, server)
	}
}

// copy forwards until an end closes or the connection is silent; then what comes
// is taken, so that its sender's kernel sees it arrive, and dropped.
func (c *proxied) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if c.muted() {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	c.close()
}

func (c *proxied) muted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mute
}

func (c *proxied) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
}

func (c *proxied) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}
