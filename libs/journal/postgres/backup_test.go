//go:build linux

package postgres

import (
	"context"
	"io"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

func TestBackups(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	journaltest.RunBackups(t, func(t *testing.T) journaltest.Backups {
		name, url := newDatabase(t, server)
		cfg, ctx := journal.DefaultConfig(), context.Background()
		return journaltest.Backups{
			Open: func() (journal.Backend, error) { return Open(ctx, url, cfg) },
			Backup: func(out io.Writer, progress func(done, total int64)) (backup.Header, error) {
				s, err := Snapshot(ctx, url, cfg)
				if err != nil {
					return backup.Header{}, err
				}
				return backup.WriteOne(ctx, out, s, progress)
			},
			Restore: func(r *backup.Reader, o backup.Options) (backup.Restored, error) {
				return Restore(ctx, url, r, cfg, o)
			},
			Lose: func() error { return server.Exec(name, "DROP SCHEMA roost CASCADE") },
		}
	})
}

// TestBackupByReader: a backup needs no right but to read, and a restore needs to own the schema.
func TestBackupByReader(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	cfg, ctx := journal.DefaultConfig(), context.Background()
	_ = openAt(t, url, cfg)
	mustExec(t, connect(t, url), roles)
	if err := server.Exec(name, "CREATE ROLE saver LOGIN IN ROLE roost_reader; CREATE ROLE region LOGIN IN ROLE roost_service"); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"saver", "region"} {
		in, out := io.Pipe()
		go func() {
			s, err := Snapshot(ctx, server.URL(role, name), cfg)
			if err == nil {
				_, err = backup.WriteOne(ctx, out, s, func(int64, int64) {})
			}
			out.CloseWithError(err)
		}()
		r, err := backup.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		o := backup.Options{Replace: true, InUse: true}
		if _, err := Restore(ctx, server.URL(role, name), r, cfg, o); state(err) != stateForbidden {
			t.Errorf("%s restores: %v", role, err)
		}
		if err := backup.Rest(r); err != nil {
			t.Errorf("%s backs up: %v", role, err)
		}
	}
}
