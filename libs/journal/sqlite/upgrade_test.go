package sqlite

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/sharding"
)

// earlier is a journal that a development version made before the formats began again at 1.
//
//go:embed testdata/earlier.db.gz
var earlier []byte

// TestUnmarked: a file without the mark is refused with the reason by whatever opens it, although it has format 1. It
// stays as it is.
func TestUnmarked(t *testing.T) {
	ctx, cfg, path := context.Background(), journal.DefaultConfig(), filepath.Join(t.TempDir(), "j.db")
	in, err := gzip.NewReader(bytes.NewReader(earlier))
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(in)
	if err == nil {
		err = os.WriteFile(path, file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "new.db")
	made, err := Open(ctx, whole, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	write(t, made, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"})
	for what, open := range map[string]func() error{
		"open":          func() error { _, err := Open(ctx, path, cfg); return err },
		"open to read":  func() error { _, err := OpenReader(ctx, path, cfg); return err },
		"upgrade":       func() error { _, err := Upgrade(ctx, path, cfg, false); return err },
		"activate":      func() error { _, err := Activate(ctx, path, cfg, journal.Format, false); return err },
		"back up":       func() error { _, err := Snapshot(ctx, path, cfg); return err },
		"restore to it": func() error { return restoreOver(t, whole, path) },
	} {
		if err := open(); !errors.Is(err, journal.ErrUnmarked) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, file) {
		t.Errorf("the file was changed: %v", err)
	}
}

// restoreOver backs up a journal and restores it to another place.
func restoreOver(t *testing.T, from, to string) error {
	t.Helper()
	s, err := Snapshot(t.Context(), from, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := backup.WriteOne(t.Context(), &out, s, func(int64, int64) {}); err != nil {
		t.Fatal(err)
	}
	r, err := backup.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Restore(t.Context(), to, r, journal.DefaultConfig(), backup.Options{Replace: true, InUse: true})
	return err
}

// TestNewFile: an upgrade makes a file of the newest format where there is none.
func TestNewFile(t *testing.T) {
	ctx, cfg, path := context.Background(), journal.DefaultConfig(), filepath.Join(t.TempDir(), "j.db")
	if _, err := Activate(ctx, path, cfg, 1, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation without a file: %v", err)
	}
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Upgrade(ctx, path, cfg, dry); err != nil || changed != (i < 3) {
			t.Errorf("upgrade %d: %t, %v", i, changed, err)
		}
	}
	if changed, err := Activate(ctx, path, cfg, journal.Format, false); err != nil || changed {
		t.Errorf("an activation for the format that it has: %t, %v", changed, err)
	}
	if _, err := Activate(ctx, path, cfg, journal.Format+1, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation before the schema is expanded: %v", err)
	}
}

// TestLaterFormat: a file that the next release has expanded is used until it is activated.
func TestLaterFormat(t *testing.T) {
	ctx, cfg, path := context.Background(), journal.DefaultConfig(), filepath.Join(t.TempDir(), "j.db")
	later := journal.Format + 1
	if _, err := Upgrade(ctx, path, cfg, false); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(path, VFS, "rw"))
	if err == nil {
		_, err = db.Exec("UPDATE meta SET value = ? WHERE key = 'format'", fmt.Sprint(later))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if changed, err := Upgrade(ctx, path, cfg, false); err != nil || changed {
		t.Errorf("an upgrade of a later format: %t, %v", changed, err)
	}
	for i, dry := range []bool{true, true, false} {
		if changed, err := Activate(ctx, path, cfg, later, dry); err != nil || !changed {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	if _, err := Open(ctx, path, cfg); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a program opens a journal that was activated for a later format: %v", err)
	}
	if _, err := Upgrade(ctx, path, cfg, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a program upgrades a journal that was activated for a later format: %v", err)
	}
}
