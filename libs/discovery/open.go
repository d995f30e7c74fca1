package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/setting"
)

const packages = "github.com/roost-cluster/roost/libs/discovery/"

// Backends are the linked backends, by the schemes of their URLs:
//
//	static:host:port,host:port    a fixed list; static://… is the same
//	file:/etc/roost/peers         a text file, read at every lookup
//	dns://resolver/name?port=n    addresses or SRV records
//	etcd://host:port/path         entries under leases
//	consul://host:port/service    instances whose checks pass
//	kubernetes://namespace/service  the endpoints of a service
//
// In the first two a peer may be written "role@host:port". The parameters of the others are in their packages and in
// docs/running/discovery.md. A backend registers when its package is imported; package backends/all imports all of them.
var Backends = backendurl.NewRegistry[Opener](ErrConfig, map[string]string{
	"static": packages + "static", "file": packages + "file", "dns": packages + "dns",
	"etcd": packages + "etcd", "consul": packages + "consul", "kubernetes": packages + "kubernetes",
})

// At is the setting of each process that looks for the coordinators.
type At struct {
	URL string `key:"url" secret:"url" help:"where this process finds the coordinators, such as static://host:port,host:port or file:/etc/roost/peers. A coordinator lists itself, too. The list may also name regions, as region@host:port, so that a gateway can start while no coordinator runs. For dns, etcd, consul and kubernetes, see docs/running/discovery.md"`
}

// DefaultAt returns the address of a coordinator on the same machine.
func DefaultAt() At { return At{URL: "static://127.0.0.1:25521"} }

// Validate returns an error if there is no URL.
func (a *At) Validate() error {
	if a.URL == "" {
		return setting.Errorf("url", "is empty; give the coordinators, such as static://127.0.0.1:25521")
	}
	return nil
}

// Opener opens the backend of a URL for the peers of one cluster. Errors wrap ErrConfig.
type Opener func(rawURL, cluster string) (Backend, error)

// Open opens the backend that a URL names, for the peers of one cluster: where entries name theirs, an entry of another
// cluster is an error of the lookup. Without a cluster, entries of any cluster are accepted. Errors wrap ErrConfig. The
// backend is not contacted before the first lookup.
func Open(rawURL, cluster string) (Backend, error) {
	open, _, err := Backends.Of(rawURL)
	var d Backend
	if err == nil {
		d, err = open(rawURL, cluster)
	}
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", backendurl.Redact(rawURL), err)
	}
	return d, nil
}

// OpenRegistration opens the backend that a URL names and prepares the entry of self in it. If processes do not enter
// themselves in that backend, the registration does nothing. A nil log is silent. Errors wrap ErrConfig.
func OpenRegistration(rawURL, cluster string, self Peer, log *slog.Logger) (*Registration, error) {
	d, err := Open(rawURL, cluster)
	if err != nil {
		return nil, err
	}
	r, err := NewRegistration(d, self, DefaultConfig(), log)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, nil
}

// Text returns an Opener whose URL is a scheme and one text, without parameters.
func Text[D Backend](open func(text string) (D, error)) Opener {
	return func(rawURL, _ string) (Backend, error) {
		scheme, rest, _ := strings.Cut(rawURL, ":")
		rest, _, hasParameters := strings.Cut(rest, "?")
		if hasParameters {
			return nil, fmt.Errorf("%w: unknown parameters; %s takes none", ErrConfig, scheme)
		}
		return orError(open(strings.TrimPrefix(rest, "//")))
	}
}

// Parsed returns an Opener that reads a parsed URL.
func Parsed[D Backend](open func(u *backendurl.URL, cluster string) (D, error)) Opener {
	return func(rawURL, cluster string) (Backend, error) {
		u, err := backendurl.ParseURL(rawURL)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		return orError(open(u, cluster))
	}
}

// orError returns nil, not a Backend with a nil pointer, if there is an error.
func orError[D Backend](d D, err error) (Backend, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
