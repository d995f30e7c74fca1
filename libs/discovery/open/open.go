// Package open opens discovery backends by URL.
//
//	static:host:port,host:port    a fixed list; static://… is the same
//	file:/etc/roost/peers         a text file, read at every lookup
//	dns://resolver/name?port=n    addresses or SRV records
//	etcd://host:port/path         entries under leases
//	consul://host:port/service    instances whose checks pass
//	kubernetes://namespace/service  the endpoints of a service
//
// In the first two a peer may be written "role@host:port". The parameters of the
// others are in their packages and in docs/discovery.md.
//
// # What this does not do
//
// It does not ask the backend anything: whether it answers is seen at the
// first lookup.
package open

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/consul"
	"github.com/roost-cluster/roost/libs/discovery/dns"
	"github.com/roost-cluster/roost/libs/discovery/etcd"
	"github.com/roost-cluster/roost/libs/discovery/file"
	"github.com/roost-cluster/roost/libs/discovery/kubernetes"
	"github.com/roost-cluster/roost/libs/discovery/static"
)

// schemes are for errors.
const schemes = "static, file, dns, etcd, consul or kubernetes"

// Open opens a backend for the peers of one cluster: where entries name theirs,
// one of another cluster is an error of the lookup. Without a cluster, entries of
// any are taken. Errors wrap discovery.ErrConfig.
func Open(url, cluster string) (discovery.Backend, error) {
	b, err := choose(url, cluster)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", backendurl.Redact(url), err)
	}
	return b, nil
}

// Registration prepares the entry of self in the backend of a URL; where nobody
// enters itself it does nothing. A nil log is silent. Errors wrap
// discovery.ErrConfig.
func Registration(url, cluster string, self discovery.Peer, log *slog.Logger) (*discovery.Registration, error) {
	b, err := Open(url, cluster)
	if err != nil {
		return nil, err
	}
	return discovery.NewRegistration(b, self, discovery.DefaultConfig(), log)
}

// choose is the one place where backends are listed.
func choose(url, cluster string) (discovery.Backend, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, fmt.Errorf("%w: this is no URL; use %s, such as static:host:port or file:path", discovery.ErrConfig, schemes)
	}
	switch scheme {
	case "static":
		return plain(scheme, rest, static.New)
	case "file":
		return plain(scheme, rest, file.New)
	case "dns":
		return parsed(url, dns.New)
	case "etcd":
		return parsed(url, func(u *backendurl.URL) (*etcd.Backend, error) { return etcd.New(u, cluster) })
	case "consul":
		return parsed(url, func(u *backendurl.URL) (*consul.Backend, error) { return consul.New(u, cluster) })
	case "kubernetes":
		return parsed(url, func(u *backendurl.URL) (*kubernetes.Backend, error) { return kubernetes.New(u, cluster) })
	}
	return nil, fmt.Errorf("%w: there is no backend %q; use %s", discovery.ErrConfig, scheme, schemes)
}

// plain opens a backend that takes one text and no parameters.
func plain[B discovery.Backend](scheme, rest string, open func(string) (B, error)) (discovery.Backend, error) {
	rest, _, hasParams := strings.Cut(rest, "?")
	if hasParams {
		return nil, fmt.Errorf("%w: unknown parameters; %s takes none", discovery.ErrConfig, scheme)
	}
	return open(strings.TrimPrefix(rest, "//"))
}

// parsed opens a backend that reads a URL itself.
func parsed[B discovery.Backend](url string, open func(*backendurl.URL) (B, error)) (discovery.Backend, error) {
	u, err := backendurl.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", discovery.ErrConfig, err)
	}
	return open(u)
}
