package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestDamagedNumbers: rows that cannot be, though each is well-formed, are damage of their
// entity. None takes memory by what it says, and none is taken for a lost connection.
func TestDamagedNumbers(t *testing.T) {
	for name, change := range map[string]string{
		"a record far behind the others": "UPDATE record SET seq = 4611686018427387904 WHERE seq = 3",
		"a gap":                          "UPDATE record SET seq = 100000000 WHERE seq = 3",
		"no snapshot":                    "UPDATE entity SET snapshot = 1",
		"a snapshot before the first":    "UPDATE entity SET snapshot = -4611686018427387904",
		"a snapshot behind the last":     "UPDATE entity SET snapshot = 4611686018427387904",
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			path := filepath.Join(t.TempDir(), "j.db")
			d, err := Open(ctx, path, journal.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			e := sharding.Entity{Type: "T", ID: "a"}
			shard := sharding.ShardID{Type: "T"}
			write(t, d, shard, e)
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(change); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := d.Load(ctx, journal.LoadRequest{Entity: e}); !errors.Is(err, journal.ErrCorrupt) {
				t.Errorf("%+v, %v, want damage", got, err)
			}
		})
	}
}

// write stores three records of an entity.
func write(t *testing.T, d *Driver, shard sharding.ShardID, e sharding.Entity) {
	t.Helper()
	ops := []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}}
	for seq := uint64(1); seq <= 3; seq++ {
		ops = append(ops, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: e, Records: []sharding.Record{{Seq: seq, Command: sharding.CommandID(fmt.Sprint(seq))}}}})
	}
	for _, op := range ops {
		results, err := d.Commit(context.Background(), []journal.Op{op})
		if err != nil || results[0].Verdict != sharding.Durable {
			t.Fatalf("%v: %v, %v", op, results, err)
		}
	}
}
