package entitytest

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// Remembered reports whether the entity is remembered: it is alive again after [Kit.Restart],
// without a command. One that cannot be started is tried again after a pause, see [Kit.Advance].
func (e Entity) Remembered() bool { return e.kit.journal(e.addr).remembered != nil }

// remember does what an append does to the wake-up of a remembered entity.
func (s *stored) remember(a *sharding.Append, due int64) {
	if s.remembered = nil; due != 0 {
		s.remembered = &journal.WakeEntry{Shard: a.Shard, Entity: a.Entity, Due: due, WakeRef: sharding.WakeRef{Kind: sharding.RememberWake}}
	}
}

// rememberedPage answers a read of remembered entities.
func (k *Kit) rememberedPage(r wakeup.Read) wakeup.Page {
	p := wakeup.Page{Number: r.Number, Remembered: true, WakesPage: journal.WakesPage{Now: k.now}}
	for _, after := range r.Shards {
		var rows []journal.WakeEntry
		for _, s := range k.store { // order-free: sorted below
			if row := s.remembered; row != nil && row.Shard == after.Shard && comparePlaces(row, after.After) > 0 {
				rows = append(rows, *row)
			}
		}
		slices.SortFunc(rows, func(a, b journal.WakeEntry) int { return cmp.Or(cmp.Compare(a.Due, b.Due), a.Entity.Compare(b.Entity)) })
		if len(rows) >= r.Limit {
			rows = rows[:r.Limit]
			p.More = append(p.More, after.Shard)
		}
		p.Entries = append(p.Entries, rows...)
	}
	return p
}
