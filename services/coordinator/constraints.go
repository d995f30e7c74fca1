package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

// If a constraint would leave a shard unserved, the constraint is broken instead. Operators want to know if
// it stays broken: then there are too few regions, or requests of operators contradict each other.

// brokenConstraints counts the shards that break a constraint.
type brokenConstraints struct {
	countedAt time.Time // when they were counted; before the first time: when the term began
	shards    [len(allocation.Constraints)]int
}

// BrokenView is a constraint, and the number of shards that broke it when they were last counted.
type BrokenView struct {
	Constraint allocation.Broken
	Shards     int
}

func (b *brokenConstraints) view() []BrokenView {
	list := make([]BrokenView, len(b.shards))
	for i, c := range allocation.Constraints {
		list[i] = BrokenView{c, b.shards[i]}
	}
	return list
}

// countBroken counts the shards that break constraints, if a count is due, and tells the log which
// constraints have become broken, or are kept again. While a plan is made, the count waits, but for one
// interval at most: the plan may mend what it would find, or a strategy may never end.
func (m *Machine) countBroken() {
	b := &m.planner.broken
	wait := m.cfg.BrokenInterval
	if m.planner.planning {
		wait *= 2
	}
	if !m.term.recovered || m.now.Sub(b.countedAt) < wait {
		return
	}
	b.countedAt = m.now
	for i, c := range allocation.Constraints {
		before := b.shards[i]
		if b.shards[i] = m.breaking(c); (before > 0) != (b.shards[i] > 0) {
			m.emit(ConstraintBroken{Constraint: c, Shards: b.shards[i]})
		}
	}
}

// breaking returns how many shards break a constraint when all moves in progress have ended.
func (pl *placement) breaking(c allocation.Broken) (n int) {
	switch c {
	case allocation.BrokenCapacity:
		for i := range pl.live.regions {
			if r := &pl.live.regions[i]; r.capacity > 0 {
				n += max(0, pl.table.expectedShards[r.node]-int(r.capacity))
			}
		}
	case allocation.BrokenPin:
		for p := range intent.All[PinFact](&pl.intent, intent.Pins) {
			_, row := pl.table.find(p.Shard)
			at := pl.live.region(row.expectedOwner())
			n += toInt(at != nil && at.name != p.Region)
		}
	case allocation.BrokenCordon:
		for c := range intent.All[CordonFact](&pl.intent, intent.Cordons) {
			n += pl.cordonView(c).Since
		}
	case allocation.BrokenZone:
		if !pl.live.anyRegion(func(r *region) bool { return r.zone != pl.live.regions[0].zone }) {
			return 0
		}
		for _, t := range pl.table.types {
			n += allocation.OverShare(pl.typeView(t))
		}
	}
	return n
}
