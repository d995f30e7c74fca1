package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/errornumber"
)

// anyRole is the role of a peer whose certificate names none, and of every peer without TLS: it may be
// what it says.
const anyRole = control.Coordinator | control.Region | control.Gateway

var roleNames = map[string]control.Role{"coordinator": control.Coordinator, "region": control.Region, "gateway": control.Gateway}

// identities reads from certificates which process of which cluster they are for.
type identities struct {
	cluster  string
	pattern  *regexp.Regexp
	text     string // of the pattern
	required bool   // a certificate without a role is refused
}

// newIdentities returns what reads URIs of the form of a pattern, such as
// spiffe://{cluster}/{role}/{node}.
func newIdentities(cluster, pattern string, required bool) (*identities, error) {
	if strings.Count(pattern, "{role}") != 1 {
		return nil, fmt.Errorf("%q must have {role} once, such as spiffe://{cluster}/{role}/{node}", pattern)
	}
	expression := regexp.QuoteMeta(pattern)
	for _, name := range []string{"cluster", "role", "node"} {
		expression = strings.Replace(expression, `\{`+name+`\}`, `(?P<`+name+`>[^/]+)`, 1)
	}
	if strings.Contains(expression, `\{`) || strings.Contains(expression, `\}`) {
		return nil, fmt.Errorf("%q may have {cluster}, {role} and {node}, each once, and no other braces", pattern)
	}
	compiled, err := regexp.Compile("^" + expression + "$")
	return &identities{cluster: cluster, pattern: compiled, text: pattern, required: required}, err
}

// role returns the role that a certificate is for, or anyRole if it names none and need not.
func (i *identities) role(c *x509.Certificate) (control.Role, error) {
	var role control.Role
	for _, uri := range c.URIs {
		found := i.pattern.FindStringSubmatch(uri.String())
		if found == nil {
			continue
		}
		if at := i.pattern.SubexpIndex("cluster"); at >= 0 && found[at] != i.cluster {
			return 0, fmt.Errorf("the certificate is for cluster %.100q, this is %q (%.200s)", found[at], i.cluster, uri)
		}
		named := roleNames[found[i.pattern.SubexpIndex("role")]]
		if named == 0 || role != 0 && role != named {
			return 0, fmt.Errorf("the certificate must be for one of the roles coordinator, region and gateway (%.200s)", uri)
		}
		role = named
	}
	switch {
	case role != 0:
		return role, nil
	case i.required:
		return 0, fmt.Errorf("the certificate has no URI like %s (tls.identity), and tls.roles is require", i.text)
	}
	return anyRole, nil
}

// peerRoleKey is where the context of a peer's request has its role.
type peerRoleKey struct{}

// PeerRole returns the role that the peer's certificate is for, in the context of a request to a
// handler of [Node.HandlePeers]. It is all roles if that is not known.
func PeerRole(ctx context.Context) control.Role {
	if role, known := ctx.Value(peerRoleKey{}).(control.Role); known {
		return role
	}
	return anyRole
}

// HandlePeers is [Node.Handle] for peers: it refuses a peer whose certificate is for a role that is not
// among those given.
func (n *Node) HandlePeers(pattern string, roles control.Role, handler http.Handler) {
	handler = n.service.limited(handler)
	n.service.mux.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role, err := n.roleOf(r)
		if err == nil && role&roles == 0 {
			err = fmt.Errorf("the certificate is for %s, which is not served here", role)
		}
		if err != nil {
			n.strangers.Warn(n.log, "a peer is refused", "peer", r.RemoteAddr, "path", r.URL.Path, "reason", err)
			bounded.Refuse(w, http.StatusForbidden, "permission_denied", errornumber.PermissionDenied, err.Error())
			return
		}
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerRoleKey{}, role)))
	}))
}

// HandleMembers is [Node.HandlePeers] for coordinators and regions.
func (n *Node) HandleMembers(pattern string, handler http.Handler) {
	n.HandlePeers(pattern, control.Coordinator|control.Region, handler)
}

// roleOf returns the role of the peer that sends a request.
func (n *Node) roleOf(r *http.Request) (control.Role, error) {
	if n.peers.files == nil || n.config.TLS.CA == "" || n.config.TLS.ClientAuth == "none" {
		return anyRole, nil // nobody shows a certificate
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return 0, errors.New("the peer shows no certificate")
	}
	return n.peers.files.identities.role(r.TLS.PeerCertificates[0])
}
