//go:build linux

package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

// TestUpgradeAndActivate: both do nothing twice, and nothing at all in a dry run. What was
// activated for a later format is refused.
func TestUpgradeAndActivate(t *testing.T) {
	t.Parallel()
	ctx, cfg := context.Background(), journal.DefaultConfig()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	if _, err := Activate(ctx, url, cfg, 1, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation without a schema: %v", err)
	}
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Upgrade(ctx, url, cfg, dry); err != nil || changed != (i < 3) {
			t.Errorf("upgrade %d: %t, %v", i, changed, err)
		}
	}
	if changed, err := Activate(ctx, url, cfg, 1, false); err != nil || changed {
		t.Errorf("an activation for the format that it has: %t, %v", changed, err)
	}
	if _, err := Activate(ctx, url, cfg, 2, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("an activation before the schema is expanded: %v", err)
	}
	if err := server.Exec(name, "UPDATE roost.meta SET format = 2"); err != nil { // as the next release will
		t.Fatal(err)
	}
	for i, dry := range []bool{true, true, false} {
		openAt(t, url, cfg) // a program of format 1 works until the activation
		if changed, err := Activate(ctx, url, cfg, 2, dry); err != nil || !changed {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	if changed, err := Activate(ctx, url, cfg, 2, false); err != nil || changed {
		t.Errorf("an activation again: %t, %v", changed, err)
	}
	if _, err := Open(ctx, url, cfg); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a program of format 1 opens a journal that was activated for format 2: %v", err)
	}
	if _, err := Upgrade(ctx, url, cfg, false); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a program of format 1 upgrades a journal that was activated for format 2: %v", err)
	}
}
