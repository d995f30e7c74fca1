// Package open opens discovery drivers by URL.
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
// It asks nobody: whether a backend answers is seen at the first lookup.
package open

import (
	"context"
	"errors"
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

// schemes lists the URL schemes, for errors.
const schemes = "static, file, dns, etcd, consul or kubernetes"

// Open opens the driver that a URL names, for the peers of one cluster: where
// entries name theirs, one of another cluster is an error of the lookup. Without a
// cluster, entries of any are taken. A URL that is not understood wraps
// discovery.ErrConfig. No driver asks anybody yet, so that ctx matters to none.
func Open(_ context.Context, url, cluster string) (discovery.Driver, error) {
	d, err := choose(url, cluster)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", backendurl.Redact(url), err)
	}
	return d, nil
}

// Registration opens the driver that a URL names and prepares the entry of self in
// it; where nobody enters itself it does nothing. A nil log is silent. Errors wrap
// discovery.ErrConfig.
func Registration(ctx context.Context, url, cluster string, self discovery.Peer, log *slog.Logger) (*discovery.Registration, error) {
	d, err := Open(ctx, url, cluster)
	if err != nil {
		return nil, err
	}
	r, err := discovery.NewRegistration(d, self, discovery.DefaultConfig(), log)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, nil
}

// choose is the one place where drivers are listed.
func choose(url, cluster string) (discovery.Driver, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, fmt.Errorf("%w: this is not a URL; use %s, such as static:host:port or file:path", discovery.ErrConfig, schemes)
	}
	switch scheme {
	case "static":
		return plain(scheme, rest, static.Open)
	case "file":
		return plain(scheme, rest, file.Open)
	case "dns":
		return parsed(url, dns.Open)
	case "etcd":
		return parsed(url, func(u *backendurl.URL) (*etcd.Driver, error) { return etcd.Open(u, cluster) })
	case "consul":
		return parsed(url, func(u *backendurl.URL) (*consul.Driver, error) { return consul.Open(u, cluster) })
	case "kubernetes":
		return parsed(url, func(u *backendurl.URL) (*kubernetes.Driver, error) { return kubernetes.Open(u, cluster) })
	}
	return nil, fmt.Errorf("%w: there is no backend %q; use %s", discovery.ErrConfig, scheme, schemes)
}

// plain opens a driver that takes one text and no parameters.
func plain[D discovery.Driver](scheme, rest string, open func(string) (D, error)) (discovery.Driver, error) {
	rest, _, hasParams := strings.Cut(rest, "?")
	if hasParams {
		return nil, fmt.Errorf("%w: unknown parameters; %s takes none", discovery.ErrConfig, scheme)
	}
	return open(strings.TrimPrefix(rest, "//"))
}

// parsed opens a driver that reads a URL itself.
func parsed[D discovery.Driver](url string, open func(*backendurl.URL) (D, error)) (discovery.Driver, error) {
	u, err := backendurl.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", discovery.ErrConfig, err)
	}
	return open(u)
}
