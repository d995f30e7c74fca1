// Package open opens lease stores by URL.
//
//	memory:            private to the caller, gone with the process
//	sqlite:lease.db    a SQLite file of its own; relative or absolute path
//
// # What this does not do
//
// It does not try another backend when one fails to open.
package open

import (
	"context"
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/lease/sqlstore"
)

// Store is a lease store with an end.
type Store interface {
	lease.Store
	// Close gives the store's resources back; requests under way may fail.
	Close() error
}

// Open is the one place where backends are listed. A URL that is not
// understood wraps lease.ErrConfig, a store that does not open lease.ErrStore.
func Open(ctx context.Context, url string) (Store, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, fmt.Errorf("%w: %q is no URL; use memory: or sqlite:path", lease.ErrConfig, url)
	}
	path, params, hasParams := strings.Cut(rest, "?")
	if hasParams {
		return nil, fmt.Errorf("%w: %s: unknown parameters %q; %s takes none", lease.ErrConfig, url, params, scheme)
	}
	switch scheme {
	case "memory":
		if path != "" {
			return nil, fmt.Errorf("%w: %s: memory: takes no path", lease.ErrConfig, url)
		}
		return memory.New(), nil
	case "sqlite":
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return nil, fmt.Errorf("%w: %s: sqlite: needs the path of a file", lease.ErrConfig, url)
		}
		s, err := sqlstore.OpenSQLite(ctx, path)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return nil, fmt.Errorf("%w: %s: there is no backend %q; use memory: or sqlite:path", lease.ErrConfig, url, scheme)
}
