//go:build linux

package postgres

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

// earlier is part of a journal that a development version made before the formats began again at 1.
//
//go:embed testdata/earlier.sql
var earlier string

// TestUnmarked: a schema without the mark is refused with the reason by whatever opens it, although it has format 1.
func TestUnmarked(t *testing.T) {
	t.Parallel()
	ctx, cfg := context.Background(), journal.DefaultConfig()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	mustExec(t, connect(t, url), earlier)
	_, whole := newDatabase(t, server)
	openAt(t, whole, cfg)
	for what, open := range map[string]func() error{
		"open":          func() error { _, err := Open(ctx, url, cfg); return err },
		"open to read":  func() error { _, err := OpenReader(ctx, url, cfg); return err },
		"upgrade":       func() error { _, err := Upgrade(ctx, url, cfg, false); return err },
		"activate":      func() error { _, err := Activate(ctx, url, cfg, journal.Format, false); return err },
		"back up":       func() error { _, err := Snapshot(ctx, url, cfg); return err },
		"restore to it": func() error { return restoreOver(t, whole, url) },
	} {
		if err := open(); !errors.Is(err, journal.ErrUnmarked) {
			t.Errorf("%s: %v", what, err)
		}
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

// TestNewSchema: an upgrade makes a schema of the newest format where there is none.
func TestNewSchema(t *testing.T) {
	t.Parallel()
	ctx, cfg := context.Background(), journal.DefaultConfig()
	_, url := newDatabase(t, postgrestest.Start(t))
	if _, err := Activate(ctx, url, cfg, 1, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation without a schema: %v", err)
	}
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Upgrade(ctx, url, cfg, dry); err != nil || changed != (i < 3) {
			t.Errorf("upgrade %d: %t, %v", i, changed, err)
		}
	}
	if changed, err := Activate(ctx, url, cfg, journal.Format, false); err != nil || changed {
		t.Errorf("an activation for the format that it has: %t, %v", changed, err)
	}
	if _, err := Activate(ctx, url, cfg, journal.Format+1, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation before the schema is expanded: %v", err)
	}
}

// TestLaterFormat: a journal that the next release has expanded is used until it is activated.
func TestLaterFormat(t *testing.T) {
	t.Parallel()
	ctx, cfg := context.Background(), journal.DefaultConfig()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	openAt(t, url, cfg)
	later := journal.Format + 1
	if err := server.Exec(name, fmt.Sprintf("UPDATE roost.meta SET format = %d", later)); err != nil {
		t.Fatal(err)
	}
	if changed, err := Upgrade(ctx, url, cfg, false); err != nil || changed {
		t.Errorf("an upgrade of a later format: %t, %v", changed, err)
	}
	for i, dry := range []bool{true, true, false} {
		openAt(t, url, cfg) // a program of this format works until the activation
		if changed, err := Activate(ctx, url, cfg, later, dry); err != nil || !changed {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	if changed, err := Activate(ctx, url, cfg, later, false); err != nil || changed {
		t.Errorf("an activation again: %t, %v", changed, err)
	}
	if _, err := Open(ctx, url, cfg); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a program opens a journal that was activated for a later format: %v", err)
	}
	if _, err := Upgrade(ctx, url, cfg, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a program upgrades a journal that was activated for a later format: %v", err)
	}
}
