package sqlite

import (
	"context"
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// write stores three records of an entity.
func write(t *testing.T, d *Backend, shard sharding.ShardID, e sharding.Entity) {
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
