package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/open"
)

func init() { open.Backends.Register(store{}, "postgres", "postgresql") }

// store opens journals in databases by URL.
type store struct{}

// urlParameters are those that a URL may have. Others would become session settings, which could break the journal's
// guarantees.
var urlParameters = []string{
	"application_name", "connect_timeout", "host", "passfile", "port",
	"sslcert", "sslkey", "sslmode", "sslrootcert", "sslsni", "target_session_attrs",
}

func (store) Check(u *url.URL) error {
	if err := open.CheckParameters(u, urlParameters...); err != nil {
		return err
	}
	if u.Opaque != "" || strings.Trim(u.Path, "/") == "" {
		return fmt.Errorf("%w: the database is missing; write for example postgres://roost@db.example.net/roost", journal.ErrConfig)
	}
	return nil
}

func (store) Open(ctx context.Context, rawURL string, cfg journal.Config) (journal.Backend, error) {
	d, err := Open(ctx, rawURL, cfg)
	if err != nil {
		return nil, err // and not a nil pointer
	}
	return d, nil
}

func (store) Reader(ctx context.Context, rawURL string, cfg journal.Config) (journal.Reader, error) {
	r, err := OpenReader(ctx, rawURL, cfg)
	if err != nil {
		return nil, err // and not a nil pointer
	}
	return r, nil
}

func (store) Upgrade(ctx context.Context, rawURL string, cfg journal.Config, dryRun bool) (bool, error) {
	return Upgrade(ctx, rawURL, cfg, dryRun)
}

func (store) Activate(ctx context.Context, rawURL string, cfg journal.Config, format int, dryRun bool) (bool, error) {
	return Activate(ctx, rawURL, cfg, format, dryRun)
}

func (store) Snapshot(ctx context.Context, rawURL string, cfg journal.Config) (backup.Source, error) {
	return Snapshot(ctx, rawURL, cfg)
}

func (store) Restore(ctx context.Context, rawURL string, r *backup.Reader, cfg journal.Config, o backup.Options) (backup.Restored, error) {
	return Restore(ctx, rawURL, r, cfg, o)
}
