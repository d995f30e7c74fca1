//go:build linux

package postgres

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestPagesCostWhatTheyReturn: in a shard with very many rows that are all due at the same
// time, a page in the middle touches a few blocks, with the plan that a prepared statement
// gets in the long run.
func TestPagesCostWhatTheyReturn(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	openAt(t, url, journal.DefaultConfig())
	conn := connect(t, url)
	const rows, limit = 50_000, 10
	for _, sql := range []string{
		fmt.Sprintf("INSERT INTO roost.entity (id, type, name, last) SELECT n, 'T', convert_to('e' || n, 'UTF8'), 1 FROM generate_series(1, %d) n", rows),
		fmt.Sprintf(`INSERT INTO roost.wake (entity, kind, name, number, due, period, seq, type, shard, hash)
			SELECT n, 1, 'w', 0, 1000, 0, 1, 'T', n / 40000, 0 FROM generate_series(1, %d) n`, rows),
		fmt.Sprintf("INSERT INTO roost.send (entity, seq, done, type, shard, hash, sends, pending, dead) SELECT n, 1, '\\x00', 'T', n / 40000, 0, 1, 1, 1 FROM generate_series(1, %d) n", rows),
		"SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan",
		"PREPARE wakes AS " + wakesSQL,
		"PREPARE sends AS " + pendingSQL,
		"PREPARE dead AS " + deadSQL,
	} {
		mustExec(t, conn, sql)
	}
	for _, call := range []string{
		fmt.Sprintf(`wakes(ARRAY['T', 'T'], ARRAY[0, 1], ARRAY[1000, 1000], ARRAY['e20000'::bytea, 'e45000'], ARRAY[1, 1], ARRAY['w'::bytea, 'w'], 2000, %d)`, limit),
		fmt.Sprintf(`sends(ARRAY['T', 'T'], ARRAY[0, 1], ARRAY['e20000'::bytea, 'e45000'], ARRAY[1, 1], %d)`, limit),
		fmt.Sprintf(`dead(ARRAY['T', 'T'], ARRAY[0, 1], ARRAY['e20000'::bytea, 'e45000'], ARRAY[1, 1], %d)`, limit),
	} {
		if rows, blocks, plan := execute(t, conn, call); rows != 2*limit+1 || blocks > 8*2*limit {
			t.Errorf("%s: %d rows cost %d blocks:\n%s", call, rows, blocks, plan)
		}
	}
}

// execute runs a prepared statement. It returns how many rows it found, how many blocks it has
// touched, and its plan.
func execute(t *testing.T, conn *pgx.Conn, call string) (rows, blocks int, plan string) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "+call).Scan(&plan); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Rows int `json:"Actual Rows"`
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(plan), &plans); err != nil {
		t.Fatal(err)
	}
	got := plans[0].Plan
	t.Logf("%s: %d rows, %d blocks", call, got.Rows, got.Hit+got.Read)
	return got.Rows, got.Hit + got.Read, plan
}

// TestPlansOutlastGrowth: a server keeps the plan of a statement, also one that it made when the
// tables were almost empty and the statistics said so. When they have grown, loads and batches
// still read only what they need.
func TestPlansOutlastGrowth(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	cfg := journal.DefaultConfig()
	cfg.Loads = 1
	d := openAt(t, url, cfg)
	conn := connect(t, url)
	for _, table := range []string{"entity", "record", "snapshot", "wake", "send"} {
		mustExec(t, conn, "ALTER TABLE roost."+table+" SET (autovacuum_enabled = off)")
	}
	shard := sharding.ShardID{Type: "T"}
	who, deleted, dropped := sharding.Entity{Type: "T", ID: "one"}, sharding.Entity{Type: "T", ID: "deleted"}, sharding.Entity{Type: "T", ID: "dropped"}
	seq, uses := uint64(0), uint64(0)
	commit := func(ops ...journal.Op) {
		t.Helper()
		results, err := d.Commit(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Verdict != sharding.Durable {
				t.Fatalf("%s: %v", ops[i].Kind(), r.Verdict)
			}
		}
	}
	// use does what a region does, each kind of it once.
	use := func() {
		t.Helper()
		seq++
		wake := sharding.Wake{Kind: sharding.ReminderWake, Name: "w", Due: 1000, Input: sharding.Input{Command: "C"}}
		commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: who, Records: []sharding.Record{{
			Seq: seq, Command: sharding.CommandID(fmt.Sprint("k", seq)), Events: []sharding.Event{{Name: "e"}}, Wakes: []sharding.Wake{wake},
			Sends: []sharding.Send{{To: sharding.Entity{Type: "T", ID: "other"}, Input: sharding.Input{Command: "C"}}},
		}}}})
		ref := sharding.WakeRef{Kind: sharding.ReminderWake, Name: "w", Seq: seq}
		seq++
		commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: who, Records: []sharding.Record{{Seq: seq}},
			Fired:     []sharding.Fired{{WakeRef: ref}},
			Delivered: []sharding.Delivered{{Seq: seq - 1, Sends: []uint16{0}, As: sharding.SendDone}}}})
		commit(journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: 1, Entity: who, Snapshot: journal.Snapshot{Seq: seq}, Cut: seq - 1}})
		seq++
		commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: who, Records: []sharding.Record{{Seq: seq, Command: sharding.CommandID(fmt.Sprint("k", seq))}}}})
		// What comes seldom: a claim, a delete, a snapshot that is dropped, a command that was expired.
		commit(journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T", Index: 1}, Epoch: sharding.Epoch(seq), Owner: 1}})
		uses++
		commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: deleted, Records: []sharding.Record{{Seq: uses, Command: "expired", Delete: true}}}})
		mustExec(t, conn, "UPDATE roost.entity SET trimmed = last WHERE type = 'T' AND name = 'deleted'")
		commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: dropped, Records: []sharding.Record{{Seq: uses}}}})
		commit(journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: 1, Entity: dropped, Snapshot: journal.Snapshot{Seq: uses}}})
		commit(journal.Op{Drop: &journal.DropSnapshot{Shard: shard, Entity: dropped, Seq: uses}})
		if l, err := d.Load(t.Context(), journal.LoadRequest{Entity: who, Shard: shard, Wakes: true, Lookup: []sharding.CommandID{"k1", "none"}}); err != nil || l.LastSeq != seq {
			t.Fatal(l.LastSeq, err)
		}
		if _, err := d.Wakes(t.Context(), journal.WakesRequest{Shards: []journal.ShardPosition{{Shard: shard}}, Until: 2000, Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	commit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}})
	for range 3 {
		use()
	}
	mustExec(t, conn, "ANALYZE")
	for range 10 { // a server makes the plan that it keeps after five runs
		use()
	}
	const rows = 50_000
	for _, sql := range []string{
		"INSERT INTO roost.entity (id, type, name, last, snapshot) SELECT 1000000 + n, 'T', convert_to('e' || n, 'UTF8'), 1, 1 FROM generate_series(1, %d) n",
		"INSERT INTO roost.record (entity, seq, command, body, at) SELECT 1000000 + n, 1, 'k', '', 0 FROM generate_series(1, %d) n",
		"INSERT INTO roost.record (entity, seq, command, body, at) SELECT 2000000, n, convert_to('k' || n, 'UTF8'), '', 0 FROM generate_series(1, %d) n",
		"INSERT INTO roost.snapshot (entity, body) SELECT 1000000 + n, '' FROM generate_series(1, %d) n",
		"INSERT INTO roost.wake (entity, kind, name, number, due, period, seq, type, shard, hash) SELECT 1000000 + n, 1, 'w', 0, 9000000, 0, 1, 'T', 0, 0 FROM generate_series(1, %d) n",
		"INSERT INTO roost.send (entity, seq, done, type, shard, hash, sends, pending, dead) SELECT 1000000 + n, 1, '\\x00', 'T', 0, 0, 1, 1, 0 FROM generate_series(1, %d) n",
	} {
		mustExec(t, conn, fmt.Sprintf(sql, rows))
	}
	for range 10 {
		use()
	}
	if err := d.Close(); err != nil { // a server counts at the latest when a connection ends
		t.Fatal(err)
	}
	for other := 1; other > 0; {
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").Scan(&other); err != nil {
			t.Fatal(err)
		}
	}
	found, err := conn.Query(t.Context(), "SELECT relname, indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = 'roost' AND idx_tup_read > 0")
	if err != nil {
		t.Fatal(err)
	}
	var table, index string
	var read int
	if _, err := pgx.ForEachRow(found, []any{&table, &index, &read}, func() error {
		t.Logf("%s: %d rows of %s", index, read, table)
		if read > rows/10 {
			t.Errorf("%d rows of %s were read by %s", read, table, index)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
