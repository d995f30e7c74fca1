package sim

import (
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
)

// heapBytes is the live heap above which a region passivates. What the heap has is drawn.
const heapBytes = 100

// strategy draws a strategy. Half of them are those of most types; the limits of the others
// are so low that entities make room for each other all the time.
func (w *World) strategy() passivation.Strategy {
	d, idle := w.dice("passivation"), nanos(passivateAfter)
	if d.chance(0.5) {
		return passivation.Idle(idle)
	}
	limit := 1 + d.IntN(3)
	noWindow := passivation.Composite(limit)
	noWindow.Admission.Window, noWindow.Admission.Optimizer = passivation.Replacement{}, nil
	list := []passivation.Strategy{
		passivation.LRU(limit).OrIdle(idle), passivation.SegmentedLRU(limit, 0.2, 0.8), passivation.MRU(limit), passivation.LFU(limit),
		passivation.LFUDynamicAging(limit), passivation.Composite(limit).OrIdle(idle), noWindow,
	}
	return list[d.IntN(len(list))]
}

// stressMemory changes, from time to time, what a shard core may keep in memory.
func (n *shardNode) stressMemory() {
	d := n.w.dice("memory")
	if d.chance(0.02) {
		n.collections += 2
		n.stepShard(region.Collected{Cycle: n.collections, Live: uint64(d.between(0, 3*heapBytes))})
	}
	if d.chance(0.002) {
		n.stepShard(region.SetPassivation{Type: types[d.IntN(len(types))].Type, Strategy: n.w.strategy()})
	}
}

// checkLimits checks that no shard has more idle entities than the limit of its type. Those
// that wait for a timer do not count, nor those that have had no turn: their loads may hang.
func (w *World) checkLimits() {
	for _, p := range w.processes[firstRegion:firstGateway] {
		body, ok := p.body.(*regionNode)
		if !ok || !p.up {
			continue
		}
		for _, n := range body.shards {
			idle := map[sharding.ShardID]int{}
			for _, b := range n.instances { // order-free: counts
				if b.idleSince > 0 && !b.running && !b.timerSet {
					idle[w.shardOf(b.entity)]++
				}
			}
			for _, t := range n.core.TypeStats() {
				if t.Passivations.Limit > 0 {
					w.mark("passivation: at a limit")
				}
				if t.Passivations.Memory > 0 {
					w.mark("passivation: for lack of memory")
				}
				for id, have := range idle { // order-free: any is a violation
					if id.Type == t.Type && t.Strategy.Limit > 0 && have > t.Strategy.Limit {
						w.violate("limits are kept", "%s: %v has %d idle entities, the limit of the type is %d", p.name, id, have, t.Strategy.Limit)
					}
				}
			}
		}
	}
}
