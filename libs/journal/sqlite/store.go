package sqlite

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/open"
)

func init() { open.Backends.Register(store{}, "sqlite") }

// store opens journals in files by URL.
type store struct{}

func (store) Check(u *url.URL) error {
	if err := open.CheckParameters(u); err != nil {
		return err
	}
	switch path, err := pathOf(u); {
	case err != nil:
		return fmt.Errorf("%w: its path is badly escaped", journal.ErrConfig)
	case u.Host != "" || u.User != nil:
		return fmt.Errorf("%w: a SQLite file is on this machine, but the URL names host %q; write three slashes: sqlite:///path", journal.ErrConfig, u.Host)
	case path == "" || strings.HasSuffix(path, "/"):
		return fmt.Errorf("%w: the path of the SQLite file is missing; write for example sqlite:///var/lib/roost/journal.db", journal.ErrConfig)
	}
	return nil
}

// pathOf returns the path of a file, which is relative if the URL has no slash after the colon.
func pathOf(u *url.URL) (string, error) {
	if u.Opaque != "" {
		return url.PathUnescape(u.Opaque)
	}
	return u.Path, nil
}

// path returns the path in a checked URL.
func path(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	path, _ := pathOf(u)
	return path
}

func (store) Open(ctx context.Context, rawURL string, cfg journal.Config) (journal.Backend, error) {
	d, err := Open(ctx, path(rawURL), cfg)
	if err != nil {
		return nil, err // and not a nil pointer
	}
	return d, nil
}

func (store) Reader(ctx context.Context, rawURL string, cfg journal.Config) (journal.Reader, error) {
	r, err := OpenReader(ctx, path(rawURL), cfg)
	if err != nil {
		return nil, err // and not a nil pointer
	}
	return r, nil
}

func (store) Upgrade(ctx context.Context, rawURL string, cfg journal.Config, dryRun bool) (bool, error) {
	return Upgrade(ctx, path(rawURL), cfg, dryRun)
}

func (store) Activate(ctx context.Context, rawURL string, cfg journal.Config, format int, dryRun bool) (bool, error) {
	return Activate(ctx, path(rawURL), cfg, format, dryRun)
}

func (store) Snapshot(ctx context.Context, rawURL string, cfg journal.Config) (backup.Source, error) {
	return Snapshot(ctx, path(rawURL), cfg)
}

func (store) Restore(ctx context.Context, rawURL string, r *backup.Reader, cfg journal.Config, o backup.Options) (backup.Restored, error) {
	return Restore(ctx, path(rawURL), r, cfg, o)
}

func (store) CheckPages(ctx context.Context, rawURL string, cfg journal.Config, progress func(done, total int64)) (open.CheckedPages, error) {
	return CheckPages(ctx, path(rawURL), cfg, progress)
}
