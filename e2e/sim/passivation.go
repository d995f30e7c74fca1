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
	if d.chance(n.w.weather.Collect) {
		n.performAll() // what has ended by now takes no memory
		n.collections += 2
		n.liveBytes, n.toldThen, n.limitsWhenOver = uint64(d.between(0, 3*heapBytes)), n.toldBytes(), nil
		n.stepShard(region.Collected{Cycle: n.collections, Live: n.liveBytes})
		n.checkCollected()
	}
	if d.chance(0.002) {
		n.stepShard(region.SetPassivation{Type: types[d.IntN(len(types))].Type, Strategy: n.w.strategy()})
		n.limitsWhenOver = nil
	}
}

// told is the size that an entity tells, 0 if it tells none.
func (w *World) told(l list) int {
	if !w.weather.Sized {
		return 0
	}
	return 1 + int(l.n*7%heapBytes)
}

// toldBytes is how much memory the entities take that are alive or being stopped, by what they have
// told.
func (n *shardNode) toldBytes() (sum int) {
	for _, b := range n.instances { // order-free: a sum
		sum += b.size
	}
	for _, size := range n.stopping { // order-free: a sum
		sum += size
	}
	return sum
}

// checkCollected checks that fewer entities may be alive than there are, of each type, when too
// much memory was found to be in use.
func (n *shardNode) checkCollected() {
	if n.liveBytes <= heapBytes {
		return
	}
	for _, t := range n.core.TypeStats() {
		if t.Entities == 0 {
			continue // it has nothing to give up
		}
		if t.Limit == 0 || t.Strategy.Limit == 0 && t.Limit > max(1, t.Entities-1) {
			n.w.violate("memory is bounded", "%s: %d bytes are in use, %d are allowed, and of %s %d entities may be alive (0: any number); there are %d", n.p.name, n.liveBytes, heapBytes, t.Type, t.Limit, t.Entities)
		}
	}
}

// checkMemory checks that no more entities may be alive from the moment on at which their sizes make
// too much memory be in use. That holds until the next collection.
func (n *shardNode) checkMemory() {
	sum := n.toldBytes()
	first := n.limitsWhenOver == nil
	if first && (sum <= n.toldThen || n.liveBytes+uint64(sum-n.toldThen) <= heapBytes) {
		return
	}
	if first {
		n.w.mark("passivation: entities have grown too large")
		n.limitsWhenOver = map[sharding.EntityType]int{}
	}
	for _, t := range n.core.TypeStats() {
		if first {
			n.limitsWhenOver[t.Type] = t.Limit
		}
		if t.Limit == 0 || t.Limit > n.limitsWhenOver[t.Type] {
			n.w.violate("memory is bounded", "%s: what entities have told makes too much memory be in use, and of %s %d may be alive (0: any number); before it were %d", n.p.name, t.Type, t.Limit, n.limitsWhenOver[t.Type])
		}
	}
}

// checkLimits checks that no shard has more idle entities than the limit of its type. Those
// that wait for a timer do not count, nor those that have had no turn: their loads may hang.
func (w *World) checkLimits() {
	repeating := map[sharding.Entity]bool{} // which are busy again and again
	for _, r := range w.allReminders() {
		repeating[r.Entity] = repeating[r.Entity] || r.Period > 0
	}
	for _, p := range w.processes[firstRegion:firstGateway] {
		body, ok := p.body.(*regionNode)
		if !ok || !p.up {
			continue
		}
		for _, n := range body.shards {
			idle := map[sharding.ShardID]int{}
			for _, b := range n.instances { // order-free: counts
				if b.idleSince > 0 && !b.running && !b.timerSet && !repeating[b.entity] {
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
