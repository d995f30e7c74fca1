package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
)

// Peers connects to the service listeners of other nodes, with this node's TLS files if
// it has any.
type Peers struct {
	files   *tlsFiles
	timeout time.Duration
	client  *http.Client
}

// NewPeers returns Peers with the TLS files, the connection timeout and the longest answer of a
// configuration. onBad is called when changed files are unusable.
func NewPeers(c *Config, onBad func(error)) (*Peers, error) {
	files, err := loadTLS("tls", c.TLS, onBad)
	if err != nil {
		return nil, err
	}
	if files != nil {
		files.least = tls.VersionTLS13
		if files.identities, err = newIdentities(c.ClusterName, c.Identity, c.Roles == requireRoles); err != nil {
			return nil, fmt.Errorf("tls.identity: %w", err)
		}
	}
	p := &Peers{files: files, timeout: c.DialTimeout}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return p.Dial(ctx, addr) }
	p.client = &http.Client{
		Transport: bounded.Limits{Body: int64(c.MaxAnswer)}.Transport(&http.Transport{
			DialContext:    dial,
			DialTLSContext: dial,
			// Peers are few and requests frequent, so connections are kept.
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		}),
		// A redirected command could run twice; peers never redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

// Client returns the HTTP client for requests to peers. It has no timeout of its own:
// each request needs a context with one.
func (p *Peers) Client() *http.Client { return p.client }

// URL returns the base URL of the peer at addr.
func (p *Peers) URL(addr string) string {
	if p.files == nil {
		return "http://" + addr
	}
	return "https://" + addr
}

// Dial connects to the peer at addr, including TLS, within the connection timeout.
func (p *Peers) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var dialer net.Dialer
	plain, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil || p.files == nil {
		return plain, err
	}
	tracked := p.files.conns.track(plain)
	config, err := p.files.client(addr, tracked)
	if err != nil {
		tracked.Close()
		return nil, err
	}
	secure := tls.Client(tracked, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		tracked.Close()
		return nil, fmt.Errorf("peer %s: %w", addr, err)
	}
	return secure, nil
}

// Close closes the idle connections.
func (p *Peers) Close() { p.client.CloseIdleConnections() }
