package explore

import (
	"github.com/roost-cluster/roost/services/coordinator"
)

// Handoff searches the move of a drained shard. No commands are in progress; those
// are the append scope's. The coordinator tells the next owner.
func Handoff(b Bound) *Result { return drainedOwner(b, true) }

// DirectHandoff searches the same move as a direct handoff: the old owner tells its successor.
func DirectHandoff(b Bound) *Result { return drainedOwner(b, false) }

func drainedOwner(b Bound, rollout bool) *Result {
	w := newCluster(rollout)
	w.addMessage("the owner is to be drained", ofStore|bothCoords, func() {
		w.coordStep(w.active(), coordinator.DrainRegion{Region: w.facts[0].Owner.String()})
	})
	return search(w, b)
}

// Append searches commits of two commands while the owner may be suspected.
func Append(b Bound) *Result {
	w := newCluster(false)
	w.prompt = true
	w.calls = []call{{cmd: cmdAdd, x: "a", left: 2}, {cmd: cmdGet, x: "g", left: 1}}
	owner := w.facts[0].Owner
	w.addMessage("c0 suspects the owner", ofCoord(0), func() {
		w.coordStep(0, coordinator.Member{Node: owner})
	})
	return search(w, b)
}

// Lease searches the acquisition of the lease.
func Lease(b Bound) *Result { return search(newLeaseWorld(), b) }

// Tenure searches what two coordinators do between the lease and the facts.
func Tenure(b Bound) *Result { return search(newTenureWorld(), b) }

// active is the coordinator that operators take for active: the one with the
// newest term.
func (w *cluster) active() int {
	for i, c := range w.coords {
		if c.live && c.term == w.store.term() {
			return i
		}
	}
	return 0
}
