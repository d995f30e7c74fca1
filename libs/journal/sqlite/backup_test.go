package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/sharding"
)

func TestBackups(t *testing.T) {
	t.Parallel()
	journaltest.RunBackups(t, func(t *testing.T) journaltest.Backups {
		dir := t.TempDir()
		path, cfg, ctx := filepath.Join(dir, "j.db"), journal.DefaultConfig(), context.Background()
		t.Cleanup(func() { // nothing else is left behind
			left, err := filepath.Glob(path + "*")
			if err != nil || len(left) > 4 || strings.Contains(strings.Join(left, " "), "restore-") {
				t.Errorf("files: %q, %v", left, err)
			}
		})
		return journaltest.Backups{
			Open: func() (journal.Backend, error) { return Open(ctx, path, cfg) },
			Backup: func(out io.Writer, progress func(done, total int64)) (backup.Header, error) {
				s, err := Snapshot(ctx, path, cfg)
				if err != nil {
					return backup.Header{}, err
				}
				return backup.WriteOne(ctx, out, s, progress)
			},
			Restore: func(r *backup.Reader, o backup.Options) (backup.Restored, error) {
				return Restore(ctx, path, r, cfg, o)
			},
			Lose: func() error {
				files, err := filepath.Glob(path + "*")
				for _, f := range files {
					err = errors.Join(err, os.Remove(f))
				}
				return err
			},
		}
	})
}

// TestRestoreDuringACommit: a process that is paused in a transaction while the journal is restored
// acknowledges none of its writes.
func TestRestoreDuringACommit(t *testing.T) {
	ctx, cfg := context.Background(), journal.DefaultConfig()
	path := filepath.Join(t.TempDir(), "j.db")
	d, err := Open(ctx, path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	write(t, d, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"})
	err = d.transact(ctx, func() error {
		d.place.due.Store(0) // the pause
		return os.Rename(path, path+".old")
	})
	if !errors.Is(err, journal.ErrReplaced) || !errors.Is(err, journal.ErrBroken) {
		t.Errorf("the commit says %v", err)
	}
}
