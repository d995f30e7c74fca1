package explore

import (
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Handoff searches the move of a drained shard. No commands are under way; those
// are the append scope's.
func Handoff(b Bound) *Result {
	w := newCluster(b)
	w.after(sharding.NodeID{}, "the owner is to be drained", func(n *cluster) {
		n.coordStep(n.active(), coordinator.DrainRegion{Region: n.facts[0].Owner})
	})
	return search(w, b.States)
}

// Append searches commits of two commands while the owner may be suspected.
func Append(b Bound) *Result {
	w := newCluster(b)
	w.calls = []call{{cmd: cmdAdd, x: "a", left: 2}, {cmd: cmdGet, x: "g", left: 1}}
	owner := w.facts[0].Owner
	w.after(sharding.NodeID{}, "c0 suspects the owner", func(n *cluster) {
		n.coordStep(0, coordinator.Member{Node: owner})
	})
	return search(w, b.States)
}

// Lease searches the acquisition of the lease.
func Lease(b Bound) *Result { return search(newLeaseWorld(b), b.States) }
