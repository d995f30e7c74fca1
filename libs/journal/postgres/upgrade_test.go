//go:build linux

package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// schema1 and roles1 are those of release 1.
var (
	//go:embed testdata/schema-1.sql
	schema1 string
	//go:embed testdata/roles-1.sql
	roles1 string
)

// shape describes the columns, indices and functions of the schema.
func shape(t *testing.T, url string) []string {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(), `
		SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns WHERE table_schema = 'roost'
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'roost'
		UNION ALL SELECT pg_get_functiondef(p.oid) || (SELECT coalesce(string_agg(a.grantee::regrole::text, ' ' ORDER BY 1), '') FROM aclexplode(p.proacl) a WHERE a.grantee <> p.proowner)
			FROM pg_proc p WHERE p.pronamespace = 'roost'::regnamespace`)
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

// TestUpgradeAndActivate: a journal of format 1 is expanded and then activated; both do
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
	mustExec(t, connect(t, owner), schema1)
	mustExec(t, connect(t, owner), roles1)
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
	_, err = Activate(ctx, owner, cfg, 2, false)
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
	if f, err := b.Facts(ctx); err != nil || f.Format != 2 || f.Activated() != 1 {
		t.Errorf("after the upgrade: %+v, %v", f, err)
	}
	commit(t, b, claim(1))
	commit(t, b, add(1, alice, 1))
	earlier := connect(t, region)
	callFormat1(t, earlier, b.generation, true)
	for i, dry := range []bool{true, true, false, false} {
		if changed, err := Activate(ctx, owner, cfg, 2, dry); err != nil || changed != (i < 3) {
			t.Errorf("activation %d: %t, %v", i, changed, err)
		}
	}
	commit(t, b, add(1, alice, 2))
	callFormat1(t, earlier, b.generation, false)

	fresh, other := newDatabase(t, server)
	if err := server.Exec(fresh, "ALTER DATABASE "+fresh+" OWNER TO owner"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, connect(t, server.URL("owner", fresh)), schema)
	mustExec(t, connect(t, server.URL("owner", fresh)), roles)
	if got, want := shape(t, url), shape(t, other); !slices.Equal(got, want) {
		t.Errorf("an expanded schema is\n%s\na new one\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	mustExec(t, connect(t, owner), roles) // again, of this release
}

// callFormat1 commits a read of a fence as a program of format 1 does.
func callFormat1(t *testing.T, conn *pgx.Conn, generation sharding.Generation, works bool) {
	t.Helper()
	var verdict []int32
	err := conn.QueryRow(t.Context(), `SELECT verdict FROM roost.commit_batch(ARRAY[$1], ARRAY[$2::bigint], ARRAY[0], '{}', '{}',
		ARRAY[2], ARRAY[1], ARRAY[0], ARRAY[1::bigint], ARRAY[0::bigint], ARRAY[0], ARRAY[0], ARRAY[false], ARRAY[NULL::bigint], ARRAY[NULL::bytea],
		'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', $3, 1, 0, 0, 0, 0)`,
		string(shard.Type), int64(shard.Index), int64(generation)).Scan(&verdict)
	if works && (err != nil || len(verdict) != 1 || verdict[0] != 1) {
		t.Errorf("a program of format 1: %v, %v", verdict, err)
	}
	if !works && err == nil {
		t.Error("a program of format 1 that does not know of the activation goes on")
	}
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
