package node

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/node/rpc"
)

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
		handler.ServeHTTP(w, r.WithContext(rpc.WithPeer(r.Context(), peer)))
	}))
}

// HandleMembers is [Node.HandlePeers] for coordinators and regions.
func (n *Node) HandleMembers(pattern string, handler http.Handler) {
	n.HandlePeers(pattern, rpc.Members, handler)
}

// peerOf returns which process sends a request.
func (n *Node) peerOf(r *http.Request) (control.Identity, error) {
	if n.peers.Files == nil || n.config.TLS.CA == "" || n.config.TLS.ClientAuth == "none" {
		return control.Identity{Roles: control.Anybody}, nil // peers need not show a certificate
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return control.Identity{}, errors.New("the peer shows no certificate")
	}
	return n.peers.Files.Identify(r.TLS.PeerCertificates[0])
}
