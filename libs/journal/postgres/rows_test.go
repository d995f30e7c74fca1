//go:build linux

package postgres

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
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
		var text []byte
		if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "+call).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var plans []struct {
			Plan struct {
				Rows int `json:"Actual Rows"`
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal(text, &plans); err != nil {
			t.Fatal(err)
		}
		got := plans[0].Plan
		t.Logf("%s: %d rows, %d blocks", call, got.Rows, got.Hit+got.Read)
		if got.Rows != 2*limit+1 || got.Hit+got.Read > 8*2*limit {
			t.Errorf("%s: %d rows cost %d blocks:\n%s", call, got.Rows, got.Hit+got.Read, text)
		}
	}
}
