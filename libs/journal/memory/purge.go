package memory

import (
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// purge removes the rest of a life, as far as permitted.
func (t *tx) purge(op *journal.Purge) {
	e := t.entities[op.Entity]
	row := wakeKey{kind: sharding.PurgeWake}
	stamp := e.stamp().Next(t.now)
	p := journal.Purging{Config: &t.cfg, Age: stamp.Age, Wall: t.now.Wall, Newest: e.dropped}
	n := 0
	for n < len(e.entries) && n < journal.MaxPurge && e.entries[n].record.Seq <= op.Life {
		x := &e.entries[n]
		left := journal.Remains{Age: x.stamp.Age, Wall: x.wall}
		if at, ok := e.commands[x.record.Command]; ok && at == x.record.Seq {
			left.Command = x.record.Command
		}
		if _, left.Sending = e.sends[x.record.Seq]; !p.Remove(&left) {
			break
		}
		delete(e.commands, left.Command)
		n++
	}
	switch {
	case n == len(e.entries):
		if p.Newest.After(t.expired[op.Shard]) {
			t.expired[op.Shard] = p.Newest
		}
		delete(t.entities, op.Entity)
		return
	case !p.Again.IsZero():
		w := e.wakes[row]
		w.due = journal.PurgeFrom + p.Again.UnixMilli()
		e.wakes[row] = w
	case e.entries[n].record.Seq > op.Life:
		delete(e.wakes, row)
	}
	e.dropped, e.looked = p.Newest, stamp
	e.entries = slices.Clone(e.entries[n:])
	e.expireIndex = max(0, e.expireIndex-n)
}
