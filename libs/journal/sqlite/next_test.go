//go:build nextformat

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/clock"
	"github.com/roost-cluster/roost/libs/sharding"
)

// newBefore makes a journal file as a program of the format before does.
func newBefore(t *testing.T, path string) {
	t.Helper()
	ctx := context.Background()
	d, err := openTo(ctx, path, journal.DefaultConfig(), func(d *Backend, ctx context.Context) error {
		if err := d.connectWriter(ctx); err != nil {
			return err
		}
		if _, err := d.conn.ExecContext(ctx, schemaBefore); err != nil {
			return err
		}
		facts := journal.NewFacts(clock.NewGeneration())
		facts.Format, facts.MinReader, facts.MinWriter = journal.Format-1, journal.Format-1, journal.Format-1
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

// TestUpgradeAndActivate: a file of the format before is expanded and then activated; both do nothing
// twice, and nothing at all in a dry run.
func TestUpgradeAndActivate(t *testing.T) {
	ctx, cfg, path := context.Background(), journal.DefaultConfig(), filepath.Join(t.TempDir(), "j.db")
	newBefore(t, path)
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
	_, err = Activate(ctx, path, cfg, journal.Format, false)
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
	if f, err := d.Facts(ctx); err != nil || f.Format != journal.Format || f.Activated() != journal.Format-1 {
		t.Errorf("after the upgrade: %+v, %v", f, err)
	}
	stored := func(want string) {
		t.Helper()
		var got string
		if err := d.conn.QueryRowContext(ctx, "SELECT group_concat(DISTINCT format) FROM record").Scan(&got); err != nil || got != want {
			t.Errorf("the records have the formats %s, want %s; %v", got, want, err)
		}
	}
	write(t, d, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"})
	stored("1")
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Activate(ctx, path, cfg, journal.Format, dry); err != nil || changed != (i < 3) {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	if f, err := d.Facts(ctx); err != nil || f.Activated() != journal.Format {
		t.Errorf("after the activation: %+v, %v", f, err)
	}
	write(t, d, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "b"})
	stored("1,2")
}
