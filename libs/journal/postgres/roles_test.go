//go:build linux

package postgres

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

//go:embed roles.sql
var roles string

// TestRoles sets the database up as roles.sql says and lets a service do
// everything it needs, and try everything it may not.
func TestRoles(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	if err := server.Exec(name, "CREATE ROLE owner LOGIN CREATEROLE; CREATE ROLE region LOGIN; ALTER DATABASE "+name+" OWNER TO owner"); err != nil {
		t.Fatal(err)
	}
	region := server.URL("region", name)
	for _, set := range []string{"no schema", schema, roles} {
		if set != "no schema" {
			mustExec(t, connect(t, server.URL("owner", name)), set)
		}
		if _, err := Open(context.Background(), region, journal.DefaultConfig()); err == nil || !strings.Contains(err.Error(), "roles.sql") {
			t.Fatalf("open without rights: %v", err)
		}
	}
	mustExec(t, connect(t, server.URL("owner", name)), roles) // again does no harm
	mustExec(t, connect(t, server.URL("owner", name)), "GRANT roost_service TO region")

	b := openAt(t, region, journal.DefaultConfig())
	if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, b, claim(1))
	mustCommit(t, b, add(1, alice, 1))
	mustCommit(t, b, journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: 1, Entity: alice, Snapshot: journal.Snapshot{Seq: 1}}})
	if l, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice}); err != nil || l.LastSeq != 1 || l.Snapshot.Seq != 1 {
		t.Fatalf("load: %+v, %v", l, err)
	}

	forbidden := []string{
		"UPDATE roost.record SET body = ''",
		"DELETE FROM roost.record",
		"TRUNCATE roost.record",
		"INSERT INTO roost.record (entity, seq, body) SELECT entity, seq + 1, body FROM roost.record",
		"SELECT * FROM roost.record FOR UPDATE",
		"UPDATE roost.fence SET epoch = epoch + 1",
		"DELETE FROM roost.fence",
		"INSERT INTO roost.fence VALUES ('Cart', 1, 1, 1)",
		"SELECT * FROM roost.fence FOR SHARE",
		"UPDATE roost.entity SET last = last + 1",
		"DELETE FROM roost.entity",
		"UPDATE roost.record SET command = NULL",
		"DELETE FROM roost.snapshot",
		"UPDATE roost.snapshot SET body = ''",
		"UPDATE roost.meta SET cluster = 'green'",
		"DELETE FROM roost.type",
		"SELECT nextval('roost.entity_id')",
		"SELECT roost.expire(1, 1000000, 9223372036854775807, 0)",
		"DO 'BEGIN LOCK TABLE roost.record IN EXCLUSIVE MODE; END'",
		"ALTER TABLE roost.record ADD COLUMN x int",
		"ALTER TABLE roost.record DISABLE TRIGGER ALL",
		"DROP TABLE roost.record",
		"DROP SCHEMA roost CASCADE",
		"CREATE TABLE roost.mine (x int)",
		"CREATE OR REPLACE FUNCTION roost.expire(bigint, bigint, bigint, bigint) RETURNS void LANGUAGE sql AS ''",
		"CREATE TRIGGER mine BEFORE INSERT ON roost.record EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"SET ROLE owner",
	}
	conn := connect(t, region)
	for _, sql := range forbidden {
		if _, err := conn.Exec(t.Context(), sql); state(err) != stateForbidden {
			t.Errorf("%s: %v, want it forbidden", sql, err)
		}
	}
	for _, sql := range []string{"SELECT * FROM roost.record", "SELECT * FROM roost.fence"} {
		mustExec(t, conn, sql)
	}
	// A reader reads, and may do nothing else.
	if err := server.Exec(name, "CREATE ROLE checker LOGIN IN ROLE roost_reader"); err != nil {
		t.Fatal(err)
	}
	checker := connect(t, server.URL("checker", name))
	for _, sql := range append(forbidden, "SELECT roost.declare_facts(1, 'green', '{}', '{}')") {
		if _, err := checker.Exec(t.Context(), sql); state(err) != stateForbidden {
			t.Errorf("%s by a reader: %v, want it forbidden", sql, err)
		}
	}
	reads, err := OpenReader(t.Context(), server.URL("checker", name), journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	if l, err := reads.Load(t.Context(), journal.LoadRequest{Entity: alice}); err != nil || l.LastSeq != 1 {
		t.Errorf("load by a reader: %+v, %v", l, err)
	}
	if all, err := reads.List(t.Context(), journal.ListRequest{Limit: 10}); err != nil || len(all) != 1 || all[0] != alice {
		t.Errorf("list by a reader: %v, %v", all, err)
	}
	// A reader plans a repair, and only the owner makes it.
	raw, err := reads.Raw(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	repair := &journal.Repair{Entity: alice, Shard: shard, Do: journal.SkipRecord, Seq: 1, Intact: true, Reason: "a test"}
	plan, err := journal.PlanRepair(&raw, repair, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	repair.Expect = plan.Digest
	if _, err := b.Repair(t.Context(), repair); state(err) != stateForbidden || !strings.Contains(err.Error(), "owns the schema") {
		t.Errorf("a repair by a service: %v", err)
	}
	if _, err := openAt(t, server.URL("owner", name), journal.DefaultConfig()).Repair(t.Context(), repair); err != nil {
		t.Errorf("a repair by the owner: %v", err)
	}
	// For every role, the server refuses to write.
	owned, err := OpenReader(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer owned.Close()
	if _, err := owned.pool.Exec(t.Context(), "DELETE FROM roost.record"); state(err) != "25006" { // read_only_sql_transaction
		t.Errorf("a delete on a connection that only reads: %v", err)
	}
	// Another role may not even look, nor call what decides.
	if err := server.Exec(name, "CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA roost TO stranger"); err != nil {
		t.Fatal(err)
	}
	stranger := connect(t, server.URL("stranger", name))
	for _, sql := range []string{"SELECT * FROM roost.record", "SELECT roost.declare_facts(1, 'green', '{}', '{}')"} {
		if _, err := stranger.Exec(t.Context(), sql); state(err) != stateForbidden {
			t.Errorf("%s by a stranger: %v, want it forbidden", sql, err)
		}
	}
	// The data is unchanged.
	l, err := openAt(t, url, journal.DefaultConfig()).Load(t.Context(), journal.LoadRequest{Entity: alice})
	if err != nil || l.LastSeq != 1 || errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("afterwards: %+v, %v", l, err)
	}
}
