package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// schema1 is that of release 1.
//
//go:embed testdata/schema-1.sql
var schema1 string

// newFormat1 makes a journal file as release 1 does.
func newFormat1(t *testing.T, path string) {
	t.Helper()
	ctx := context.Background()
	d, err := openTo(ctx, path, journal.DefaultConfig(), func(d *Driver, ctx context.Context) error {
		if err := d.connectWriter(ctx); err != nil {
			return err
		}
		if _, err := d.conn.ExecContext(ctx, schema1); err != nil {
			return err
		}
		facts := journal.NewFacts(journal.NewGeneration())
		facts.Format, facts.MinReader, facts.MinWriter = 1, 1, 1
		return createFacts(ctx, d.conn, facts)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// shape describes the columns and indices of all tables.
func shape(t *testing.T, path string) (lines []string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, VFS, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, query := range []string{
		`SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || c.pk || ' ' || ifnull(c.dflt_value, '') FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'`,
		`SELECT m.tbl_name || ': ' || m.name || ' ' || c.seqno || ' ' || ifnull(c.name, '') FROM sqlite_schema m, pragma_index_xinfo(m.name) c WHERE m.type = 'index'`,
	} {
		err := each(t.Context(), db, query, func(rows *sql.Rows) error {
			var line string
			err := rows.Scan(&line)
			lines = append(lines, line)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestUpgradeAndActivate: a file of format 1 is expanded and then activated; both do nothing
// twice, and nothing at all in a dry run.
func TestUpgradeAndActivate(t *testing.T) {
	ctx, cfg, path := context.Background(), journal.DefaultConfig(), filepath.Join(t.TempDir(), "j.db")
	newFormat1(t, path)
	refused := func(what string, err error, says string) {
		t.Helper()
		if !errors.Is(err, journal.ErrIdentity) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v, want an error with %q", what, err, says)
		}
	}
	_, err := Open(ctx, path, cfg)
	refused("open", err, "roost journal upgrade")
	_, err = OpenReader(ctx, path, cfg)
	refused("open to read", err, "roost journal upgrade")
	_, err = Activate(ctx, path, cfg, 2, false)
	refused("an activation before the schema is expanded", err, "roost journal upgrade")
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Upgrade(ctx, path, cfg, dry); err != nil || changed != (i < 3) {
			t.Errorf("upgrade %d: %t, %v", i, changed, err)
		}
	}
	made := filepath.Join(t.TempDir(), "new.db")
	if _, err := Upgrade(ctx, made, cfg, false); err != nil {
		t.Fatal(err)
	}
	if got, want := shape(t, path), shape(t, made); !slices.Equal(got, want) {
		t.Errorf("an expanded file is\n%s\na new one\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d, err := Open(ctx, path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if f, err := d.Facts(ctx); err != nil || f.Format != 2 || f.Activated() != 1 {
		t.Errorf("after the upgrade: %+v, %v", f, err)
	}
	write(t, d, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"})
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Activate(ctx, path, cfg, 2, dry); err != nil || changed != (i < 3) {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	if f, err := d.Facts(ctx); err != nil || f.Activated() != 2 {
		t.Errorf("after the activation: %+v, %v", f, err)
	}
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
