//go:build linux && nextformat

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/clock"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// shape describes the columns, indices and functions of the schema.
func shape(t *testing.T, url string) []string {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(), `
		SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns WHERE table_schema = 'roost'
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'roost'
		UNION ALL SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = 'roost'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// TestUpgradeAndActivate: a journal of the format before is expanded and then activated; both do
// nothing twice, and nothing at all in a dry run. Between the two, programs of both formats
// work on it, with the roles that were there.
func TestUpgradeAndActivate(t *testing.T) {
	t.Parallel()
	ctx, cfg := context.Background(), journal.DefaultConfig()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	if err := server.Exec(name, "CREATE ROLE owner LOGIN CREATEROLE; CREATE ROLE region LOGIN; ALTER DATABASE "+name+" OWNER TO owner"); err != nil {
		t.Fatal(err)
	}
	owner, region := server.URL("owner", name), server.URL("region", name)
	mustExec(t, connect(t, owner), schemaBefore)
	mustExec(t, connect(t, owner), roles)
	mustExec(t, connect(t, owner), "GRANT roost_service TO region")
	refused := func(what string, err error, says string) {
		t.Helper()
		if !errors.Is(err, journal.ErrIdentity) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v, want an error with %q", what, err, says)
		}
	}
	_, err := Open(ctx, region, cfg)
	refused("open", err, "roost journal upgrade")
	_, err = OpenReader(ctx, region, cfg)
	refused("open to read", err, "roost journal upgrade")
	_, err = Activate(ctx, owner, cfg, journal.Format, false)
	refused("an activation before the schema is expanded", err, "roost journal upgrade")
	if _, err := Upgrade(ctx, region, cfg, false); err == nil {
		t.Error("a service upgrades the schema")
	}
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Upgrade(ctx, owner, cfg, dry); err != nil || changed != (i < 3) {
			t.Errorf("upgrade %d: %t, %v", i, changed, err)
		}
	}
	b := openAt(t, region, cfg)
	if f, err := b.Facts(ctx); err != nil || f.Format != journal.Format || f.Activated() != journal.Format-1 {
		t.Errorf("after the upgrade: %+v, %v", f, err)
	}
	formats := func(want string) {
		t.Helper()
		var got string
		if err := connect(t, owner).QueryRow(ctx, "SELECT string_agg(format::text, ',' ORDER BY seq) FROM roost.record").Scan(&got); err != nil || got != want {
			t.Errorf("the records have the formats %s, want %s; %v", got, want, err)
		}
	}
	mustCommit(t, b, claim(1))
	mustCommit(t, b, add(1, alice, 1))
	formats("1")
	before := connect(t, region)
	callBefore(t, before, b.generation, true)
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Activate(ctx, owner, cfg, journal.Format, dry); err != nil || changed != (i < 3) {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	mustCommit(t, b, add(1, alice, 2))
	formats("1,2")
	callBefore(t, before, b.generation, false)

	fresh, other := newDatabase(t, server)
	if err := server.Exec(fresh, "ALTER DATABASE "+fresh+" OWNER TO owner"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, connect(t, server.URL("owner", fresh)), schema)
	if got, want := shape(t, url), shape(t, other); !slices.Equal(got, want) {
		t.Errorf("an expanded schema is\n%s\na new one\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	mustExec(t, connect(t, owner), roles) // again, of this release
}

// callBefore commits a read of a fence as a program of the format before does.
func callBefore(t *testing.T, conn *pgx.Conn, generation sharding.Generation, works bool) {
	t.Helper()
	d := &Backend{cfg: journal.DefaultConfig(), generation: generation, clock: clock.NewTimekeeper(clock.System())}
	ops := []journal.Op{{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}}}
	args := d.commitArgs(ops, d.clock.Now())
	args[0] = journal.Format - 1
	results, err := d.decided(conn.QueryRow(t.Context(), strings.Replace(commitSQL, "roost.commit_batch_next(", "roost.commit_batch(", 1), args...), ops)
	if works && (err != nil || results[0].Verdict != sharding.Durable) {
		t.Errorf("a program of the format before: %v, %v", results, err)
	}
	if !works && err == nil {
		t.Error("a program of the format before that does not know of the activation continues")
	}
}
