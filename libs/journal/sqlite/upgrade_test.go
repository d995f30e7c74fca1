package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
)

// TestUpgradeAndActivate: both do nothing twice, and nothing at all in a dry run. What was
// activated for a later format is refused.
func TestUpgradeAndActivate(t *testing.T) {
	ctx, cfg, path := context.Background(), journal.DefaultConfig(), filepath.Join(t.TempDir(), "j.db")
	if _, err := Activate(ctx, path, cfg, 1, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation without a file: %v", err)
	}
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Upgrade(ctx, path, cfg, dry); err != nil || changed != (i < 3) {
			t.Errorf("upgrade %d: %t, %v", i, changed, err)
		}
	}
	if changed, err := Activate(ctx, path, cfg, 1, false); err != nil || changed {
		t.Errorf("an activation for the format that it has: %t, %v", changed, err)
	}
	if _, err := Activate(ctx, path, cfg, 2, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation before the schema is expanded: %v", err)
	}
	db, err := sql.Open("sqlite", dsn(path, VFS, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE meta SET value = '2' WHERE key = 'format'"); err != nil { // as the next release will
		t.Fatal(err)
	}
	_ = db.Close()
	for i, dry := range []bool{true, true, false} {
		if changed, err := Activate(ctx, path, cfg, 2, dry); err != nil || !changed {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	if _, err := Open(ctx, path, cfg); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a program of format 1 opens a journal that was activated for format 2: %v", err)
	}
}
