package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/errornumber"
)

var roleNames = map[string]control.Role{"coordinator": control.Coordinator, "region": control.Region, "gateway": control.Gateway}

// identities finds the cluster and the process that a certificate is for.
type identities struct {
	cluster  string
	pattern  *regexp.Regexp
	text     string // of the pattern
	required bool   // a certificate without a role is refused
}

// newIdentities returns an identities for URIs that match a pattern, such as spiffe://{cluster}/{role}/{node}. If the
// pattern ends with /{node}, this part may be missing in a URI: then the certificate is for all processes of the role.
func newIdentities(cluster, pattern string, required bool) (*identities, error) {
	if strings.Count(pattern, "{role}") != 1 {
		return nil, fmt.Errorf("%q must have {role} once, such as spiffe://{cluster}/{role}/{node}", pattern)
	}
	expression := regexp.QuoteMeta(pattern)
	for _, name := range []string{"cluster", "role", "node"} {
		expression = strings.Replace(expression, `\{`+name+`\}`, `(?P<`+name+`>[^/]+)`, 1)
	}
	if shared, is := strings.CutSuffix(expression, `/(?P<node>[^/]+)`); is {
		expression = shared + `(?:/(?P<node>[^/]+))?`
	}
	if strings.Contains(expression, `\{`) || strings.Contains(expression, `\}`) {
		return nil, fmt.Errorf("%q may have {cluster}, {role} and {node}, each once, and no other braces", pattern)
	}
	compiled, err := regexp.Compile("^" + expression + "$")
	return &identities{cluster: cluster, pattern: compiled, text: pattern, required: required}, err
}

// of returns which process a certificate is for. If the certificate names no role, and need not name one, the roles are
// [control.Anybody]. The node is empty if the certificate names none.
func (i *identities) of(c *x509.Certificate) (control.Identity, error) {
	var found control.Identity
	for n, uri := range c.URIs {
		parts := i.pattern.FindStringSubmatch(uri.String())
		if parts == nil {
			continue
		}
		if at := i.pattern.SubexpIndex("cluster"); at >= 0 && parts[at] != i.cluster {
			return found, fmt.Errorf("the certificate is for cluster %.100q, this is %q (%.200s)", parts[at], i.cluster, uri)
		}
		named := control.Identity{Roles: roleNames[parts[i.pattern.SubexpIndex("role")]]}
		if at := i.pattern.SubexpIndex("node"); at >= 0 {
			named.Node = parts[at]
		}
		switch {
		case named.Roles == 0:
			return control.Identity{}, fmt.Errorf("the certificate must be for one of the roles coordinator, region and gateway (%.200s)", uri)
		case found.Roles != 0 && found != named:
			return control.Identity{}, fmt.Errorf("the certificate must be for one process, or for one role (%.200s and %.200s)", c.URIs[n-1], uri)
		}
		found = named
	}
	switch {
	case found.Roles != 0:
		return found, nil
	case i.required:
		return found, fmt.Errorf("the certificate has no URI like %s (tls.identity), and tls.roles is require", i.text)
	}
	return control.Identity{Roles: control.Anybody}, nil
}

// target is the peer that a connection is meant for.
type target struct {
	roles control.Role
	host  string   // the host that was dialled
	nodes []string // the nodes that may be there; empty: not known
}

// check refuses the certificate of any other process than the target. A certificate that names a role is judged by its
// URI, wherever its process runs: addresses change, and peers may find each other at addresses that are in no
// certificate. A certificate that names no role is judged by its host names.
func (i *identities) check(c *x509.Certificate, to target) error {
	is, err := i.of(c)
	switch {
	case err != nil:
		return err
	case is.Roles&to.roles == 0:
		return fmt.Errorf("the certificate is for %s, and this connection is meant for %s", is, to.roles)
	case is.Roles == control.Anybody:
		if err := c.VerifyHostname(to.host); err != nil {
			return fmt.Errorf("%w; it has no URI like %s (tls.identity) either", err, i.text)
		}
	case is.Node != "" && len(to.nodes) > 0 && !slices.Contains(to.nodes, is.Node):
		return fmt.Errorf("the certificate is for %s, and this connection is meant for %s", is, strings.Join(to.nodes, " or "))
	}
	return nil
}

// CheckCertificate returns an error if the certificate of tls.cert is for another process than this one: then other
// processes would refuse this one.
func (n *Node) CheckCertificate(this control.Identity) error {
	files := n.peers.files
	if files == nil {
		return nil
	}
	now, err := files.current()
	if err != nil {
		return err
	}
	is, err := files.identities.of(now.own.Leaf)
	if err == nil {
		err = is.MaySpeakAs(this)
	}
	if err != nil {
		return fmt.Errorf("tls.cert %s: %w: other processes would refuse this one. Issue a certificate for it (roost auth cert new), or set node.name", n.config.TLS.Cert, err)
	}
	return nil
}

// peerKey is the key of the peer's identity in the context of its request.
type peerKey struct{}

// PeerOf returns which process the peer's certificate is for, in the context of a request to a handler
// of [Node.HandlePeers]. It has all roles if that is not known.
func PeerOf(ctx context.Context) control.Identity {
	if peer, known := ctx.Value(peerKey{}).(control.Identity); known {
		return peer
	}
	return control.Identity{Roles: control.Anybody}
}

// HandlePeers is [Node.Handle] for peers. It refuses peers whose certificate is for none of the given roles. Peers are
// served at the service listener. If the clients of that listener are no peers, as at a gateway, peers are served at a
// listener of their own, or if there is none, not at all.
func (n *Node) HandlePeers(pattern string, roles control.Role, handler http.Handler) {
	if n.inner == nil {
		return
	}
	handler = n.inner.limited(handler, nil)
	n.inner.mux.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := n.peerOf(r)
		if err == nil && peer.Roles&roles == 0 {
			err = fmt.Errorf("the certificate is for %s, which is not served here", peer)
		}
		if err != nil {
			n.strangers.Warn(n.log, "a peer is refused", "peer", r.RemoteAddr, "path", r.URL.Path, "reason", err)
			bounded.Refuse(w, http.StatusForbidden, "permission_denied", errornumber.PermissionDenied, err.Error())
			return
		}
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, peer)))
	}))
}

// HandleMembers is [Node.HandlePeers] for coordinators and regions.
func (n *Node) HandleMembers(pattern string, handler http.Handler) {
	n.HandlePeers(pattern, Members, handler)
}

// peerOf returns which process sends a request.
func (n *Node) peerOf(r *http.Request) (control.Identity, error) {
	if n.peers.files == nil || n.config.TLS.CA == "" || n.config.TLS.ClientAuth == "none" {
		return control.Identity{Roles: control.Anybody}, nil // peers need not show a certificate
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return control.Identity{}, errors.New("the peer shows no certificate")
	}
	return n.peers.files.identities.of(r.TLS.PeerCertificates[0])
}
