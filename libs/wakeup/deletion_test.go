package wakeup_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// TestDeletedEntity: the wake-ups of an entity that was deleted leave the memory with it, and
// do not fire; those of others stay.
func TestDeletedEntity(t *testing.T) { deletedEntity(t) }

func deletedEntity(t testing.TB) {
	m := newModel(t, 1, nil)
	m.claimAll()
	due := m.wall() + 3000
	m.set("a0", "one", due, 0, false)
	m.set("a0", "two", due, 0, false)
	m.set("a3", "other", due, 0, false)
	m.pass(time.Second)
	before := m.k.Stats().Rows
	m.seq++
	for _, name := range []string{"one", "two"} {
		delete(m.rows, "a0/"+name)
	}
	shard := shardOf("a0")
	m.tell(turn.WakesChanged{Shard: shard, Epoch: m.open[shard], Entity: m.ent("a0"), Records: []sharding.Record{{Seq: m.seq, Delete: true}}})
	if after := m.k.Stats().Rows; before != 3 || after != 1 {
		t.Fatalf("%d rows are in memory after the delete, want 1; %d were there before, want 3", after, before)
	}
	m.pass(10 * time.Second)
	if s := m.k.Stats(); s.Obsolete > 0 || s.Fired != 1 {
		t.Errorf("counted %+v, want one firing, and none in vain", s)
	}
}
