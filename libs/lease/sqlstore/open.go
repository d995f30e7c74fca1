package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
)

func init() {
	lease.Backends.Register(openSQLiteURL, "sqlite")
	lease.Backends.Register(func(_ context.Context, rawURL string) (lease.Backend, error) { return orError(OpenPostgres(rawURL)) }, "postgres", "postgresql")
}

func openSQLiteURL(ctx context.Context, rawURL string) (lease.Backend, error) {
	_, rest, _ := strings.Cut(rawURL, ":")
	path, _, hasParameters := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	switch {
	case hasParameters:
		return nil, fmt.Errorf("%w: %s: unknown parameters; sqlite takes none", lease.ErrConfig, backendurl.Redact(rawURL))
	case path == "":
		return nil, fmt.Errorf("%w: %s: sqlite: needs the path of a file", lease.ErrConfig, backendurl.Redact(rawURL))
	}
	return orError(OpenSQLite(ctx, path))
}

// orError returns nil, not a Backend with a nil pointer, if there is an error.
func orError(d *Backend, err error) (lease.Backend, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
