package lease

import (
	"context"
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/backendurl"
)

const packages = "github.com/roost-cluster/roost/libs/lease/"

// Backends are the linked backends, by the schemes of their URLs:
//
//	memory:                          private to the caller, gone with the process
//	sqlite:lease.db                  a SQLite file of its own; relative or absolute path
//	postgres://user@host/database    a table of a PostgreSQL database
//	etcd://host:2379,host:2379/path  keys of an etcd cluster, below a path
//	consul://host:8500/path          keys of Consul, below a path
//	kubernetes://namespace           Lease objects; in a pod just kubernetes:
//
// For the parameters see the backends' packages. Servers are connected to at the first request. A backend registers when its
// package is imported; package backends/all imports all of them.
var Backends = backendurl.NewRegistry[Opener](ErrConfig, map[string]string{
	"memory": packages + "memory", "sqlite": packages + "sqlstore", "postgres": packages + "sqlstore", "postgresql": packages + "sqlstore",
	"etcd": packages + "etcd", "consul": packages + "consul", "kubernetes": packages + "kubernetes",
})

// Opener opens the backend of a URL. The error for an invalid URL wraps ErrConfig, that for a store that does not open
// ErrStore.
type Opener func(ctx context.Context, rawURL string) (Backend, error)

// Open opens the backend that a URL names. Its errors come from a [Opener].
func Open(ctx context.Context, rawURL string) (Backend, error) {
	open, _, err := Backends.Of(rawURL)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", backendurl.Redact(rawURL), err)
	}
	return open(ctx, rawURL)
}

// Server returns the Opener of a server, which reads a parsed URL.
func Server[D Backend](open func(*backendurl.URL) (D, error)) Opener {
	return func(_ context.Context, rawURL string) (Backend, error) {
		scheme, rest, _ := strings.Cut(rawURL, ":")
		u, err := backendurl.ParseURL(scheme + "://" + strings.TrimPrefix(rest, "//"))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrConfig, scheme, err)
		}
		d, err := open(u)
		if err != nil {
			return nil, err // and not a nil pointer
		}
		return d, nil
	}
}
