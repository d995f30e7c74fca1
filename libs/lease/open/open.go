// Package open opens lease drivers by URL.
//
//	memory:                          private to the caller, gone with the process
//	sqlite:lease.db                  a SQLite file of its own; relative or absolute path
//	postgres://user@host/database    a table of a PostgreSQL database
//	etcd://host:2379,host:2379/path  keys of an etcd cluster, below a path
//	consul://host:8500/path          keys of Consul, below a path
//	kubernetes://namespace           Lease objects; in a pod just kubernetes:
//
// For the parameters see the drivers' packages. Servers are connected to at the
// first request.
//
// # What this does not do
//
// It does not try another driver when one fails to open.
package open

import (
	"context"
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/consul"
	"github.com/roost-cluster/roost/libs/lease/etcd"
	"github.com/roost-cluster/roost/libs/lease/kubernetes"
	"github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/lease/sqlstore"
)

const known = "use memory:, sqlite:path, postgres://, etcd://, consul:// or kubernetes://"

// Open opens the driver that a URL names. It is the one place where drivers are
// listed. The error for an invalid URL wraps lease.ErrConfig, that for a store that does
// not open lease.ErrStore.
func Open(ctx context.Context, url string) (lease.Driver, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, fmt.Errorf("%w: %q is not a URL; %s", lease.ErrConfig, backendurl.Redact(url), known)
	}
	switch scheme {
	case "memory":
		if rest != "" {
			return nil, fmt.Errorf("%w: %s: memory: takes no path and no parameters", lease.ErrConfig, backendurl.Redact(url))
		}
		return memory.New(), nil
	case "sqlite":
		path, _, hasParams := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		if hasParams {
			return nil, fmt.Errorf("%w: %s: unknown parameters; sqlite takes none", lease.ErrConfig, backendurl.Redact(url))
		}
		if path == "" {
			return nil, fmt.Errorf("%w: %s: sqlite: needs the path of a file", lease.ErrConfig, backendurl.Redact(url))
		}
		return orError(sqlstore.OpenSQLite(ctx, path))
	case "postgres", "postgresql":
		return orError(sqlstore.OpenPostgres(url))
	case "etcd":
		return server(url, etcd.Open)
	case "consul":
		return server(url, consul.Open)
	case "kubernetes":
		return server(url, kubernetes.Open)
	}
	return nil, fmt.Errorf("%w: there is no backend %q; %s", lease.ErrConfig, scheme, known)
}

// server opens the driver of a server.
func server[D lease.Driver](url string, open func(*backendurl.URL) (D, error)) (lease.Driver, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	u, err := backendurl.ParseURL(scheme + "://" + strings.TrimPrefix(rest, "//"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lease.ErrConfig, scheme, err)
	}
	return orError(open(u))
}

// orError returns nil, not a Driver with a nil pointer, if there is an error.
func orError[D lease.Driver](d D, err error) (lease.Driver, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
