package sim

import (
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The brake of coordinators has windows of a second, so that it acts within a storm. A window
// must have so many latencies; the pause is short enough for all to finish in time.
const (
	brakeSamples = 10
	brakePause   = 3 * sec
)

// burdenFrom is the number of shards that a region serves without being any slower.
const burdenFrom = 6

// burden returns by how much the turns of a region are longer, because it has many shards.
func (w *World) burden(p *process) int64 {
	if w.weather.Burden == 0 {
		return 0
	}
	n := int64(0)
	for _, row := range w.journal.newest { // order-free: counts
		if row.Owner == p.id() {
			n++
		}
	}
	return w.weather.Burden * max(0, n-burdenFrom)
}

// voluntary reports whether a fact begins a voluntary move.
func voluntary(f coordinator.RowFact) bool {
	switch f.Cause {
	case sharding.CauseBalance, sharding.CauseLoad, sharding.CausePin, sharding.CauseCapacity, sharding.CauseZone, sharding.CauseMove:
		return f.Row.Phase == sharding.HandingOff
	}
	return false
}
