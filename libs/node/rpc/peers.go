package rpc

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/conn"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/security"
)

// Members are the roles of those who are members of the cluster.
const Members = control.Coordinator | control.Region

// Peers connects to the listeners for peers of other nodes, with this node's TLS files if
// it has any.
type Peers struct {
	Files   *security.Files
	timeout time.Duration
	answer  int64 // the longest one

	mu    sync.Mutex
	of    map[control.Role]*PeersOf
	names func(addr string) []string // nil: none is known
}

// PeersOf connects to peers that have one of certain roles.
type PeersOf struct {
	peers  *Peers
	roles  control.Role
	client *http.Client
}

// NewPeers returns Peers with the TLS files, the connection timeout and the longest answer of a
// configuration. onBad is called when changed files are unusable.
func NewPeers(c *config.Config, onBad func(error)) (*Peers, error) {
	files, err := security.LoadPeerFiles(c.TLS, c.ClusterName, c.Identity, c.Roles == config.RequireRoles, onBad)
	if err != nil {
		return nil, err
	}
	return &Peers{Files: files, timeout: c.DialTimeout, answer: int64(c.MaxAnswer), of: map[control.Role]*PeersOf{}}, nil
}

// Of returns the connector to peers that have one of the roles. By TLS, it refuses a peer with a certificate for
// another role or another cluster; and if only one role is meant, a peer with the certificate of another node than
// the one that [Peers.Know] has at the address.
//
// If several roles are meant, the node is not compared: that is for the membership itself, which asks an address to
// find out who is there.
func (p *Peers) Of(roles control.Role) *PeersOf {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.of[roles]; o != nil {
		return o
	}
	o := &PeersOf{peers: p, roles: roles}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return o.Dial(ctx, addr) }
	o.client = &http.Client{
		Transport: bounded.Limits{Body: p.answer}.Transport(&http.Transport{
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
	p.of[roles] = o
	return o
}

// Reach returns what makes requests to the peer at an address, which has one of the roles, and its base URL.
func (p *Peers) Reach(roles control.Role, addr string) (client *http.Client, url string) {
	o := p.Of(roles)
	return o.client, o.URL(addr)
}

// ReachGateway is [Peers.Reach] for a gateway, which answers at its address for peers. One that has none, because it has no
// TLS, is reached at its management listener with the client given, without TLS and token.
func (p *Peers) ReachGateway(peers, management string, plain *http.Client) (client *http.Client, url string) {
	if peers == "" || p.Files == nil {
		return plain, "http://" + management
	}
	return p.Reach(control.Gateway, peers)
}

// GatewayOutOfReach returns why the process at self cannot ask a gateway; nil if it can. A gateway that listens for questions
// only on the loopback of another host must get no question: another process would answer at that address here.
func GatewayOutOfReach(self, gateway, peers, management string) error {
	at := cmp.Or(peers, management)
	if !isLoopback(hostOf(at)) || isLoopback(hostOf(self)) || hostOf(gateway) == hostOf(self) {
		return nil
	}
	return fmt.Errorf("it can be queried only at %s, which only its own host reaches; see gateway.peer_listen and management.listen", at)
}

func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// GatewayPlace describes the address that a gateway answers at.
func GatewayPlace(peers, management string) string {
	if peers == "" {
		return "management address " + management + ": without tls.ca it has no gateway.peer_listen, and then its management listener must be plain and ask for no token"
	}
	return "address for peers " + peers + "; see gateway.peer_listen"
}

// Know has connections verified by the names of the nodes that are known to be at an address. names returns them; none:
// that is not known.
func (p *Peers) Know(names func(addr string) []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = names
}

// nodesAt returns the names of the nodes at an address, if they matter for a connection to the roles.
func (p *Peers) nodesAt(roles control.Role, addr string) []string {
	p.mu.Lock()
	names := p.names
	p.mu.Unlock()
	if names == nil || roles&(roles-1) != 0 {
		return nil
	}
	return names(addr)
}

// Client returns the HTTP client for requests to peers. It has no timeout of its own:
// each request needs a context with one.
func (o *PeersOf) Client() *http.Client { return o.client }

// URL returns the base URL of the peer at addr.
func (o *PeersOf) URL(addr string) string {
	if o.peers.Files == nil {
		return "http://" + addr
	}
	return "https://" + addr
}

// Dial connects to the peer at addr, including TLS, within the connection timeout.
func (o *PeersOf) Dial(ctx context.Context, addr string) (net.Conn, error) {
	p := o.peers
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var dialer net.Dialer
	plain, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	plain = conn.Wrap(plain)
	if p.Files == nil {
		return plain, nil
	}
	return p.Files.Handshake(ctx, plain, addr, o.roles, p.nodesAt(o.roles, addr))
}

// Close closes the idle connections.
func (p *Peers) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.of { // order-free: all are closed
		o.client.CloseIdleConnections()
	}
}

// peerKey is the key of the peer's identity in the context of its request.
type peerKey struct{}

// PeerOf returns which process the peer's certificate is for, in the context of a request to a handler
// of [node.Node.HandlePeers]. It has all roles if that is not known.
func PeerOf(ctx context.Context) control.Identity {
	if peer, known := ctx.Value(peerKey{}).(control.Identity); known {
		return peer
	}
	return control.Identity{Roles: control.Anybody}
}

// WithPeer returns the context of a request of a peer.
func WithPeer(ctx context.Context, peer control.Identity) context.Context {
	return context.WithValue(ctx, peerKey{}, peer)
}
