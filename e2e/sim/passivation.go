package sim

import (
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// heapBytes is the live heap above which a region passivates. What the heap has is drawn.
const heapBytes = 100

// strategy draws a strategy. Half of them belong to most types; the limits of the others
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
func (s *shardNode) stressMemory() {
	d := s.w.dice("memory")
	if d.chance(s.w.weather.Collect) {
		s.performAll() // what has ended by now takes no memory
		s.collections += 2
		s.liveBytes, s.reportedAtCollection, s.limitsWhenOver = uint64(d.between(0, 3*heapBytes)), s.reportedBytes(), nil
		s.stepShard(turn.Collected{Cycle: s.collections, Live: s.liveBytes})
		s.checkCollected()
	}
	if d.chance(0.002) {
		s.stepShard(region.SetPassivation{Type: types[d.IntN(len(types))].Type, Strategy: s.w.strategy()})
		s.limitsWhenOver = nil
	}
}

// told is the size that an entity tells, 0 if it tells none.
func (w *World) told(l list) int {
	if !w.weather.Sized {
		return 0
	}
	return 1 + int(l.n*7%heapBytes)
}

// reportedBytes is the sum of the sizes that entities have reported. Only entities that are alive or
// being stopped count.
func (s *shardNode) reportedBytes() (sum int) {
	for _, b := range s.instances { // order-free: a sum
		sum += b.size
	}
	for _, size := range s.stopping { // order-free: a sum
		sum += size
	}
	return sum
}

// checkCollected checks that fewer entities may be alive than there are, of each type, when too
// much memory was found to be in use.
func (s *shardNode) checkCollected() {
	if s.liveBytes <= heapBytes {
		return
	}
	for _, t := range s.core.TypeStats() {
		if t.Entities == 0 {
			continue // it has nothing to give up
		}
		if t.Limit == 0 || t.Strategy.Limit == 0 && t.Limit > max(1, t.Entities-1) {
			s.w.violate("memory is bounded", "%s: %d bytes are in use, %d are allowed, and of %s %d entities may be alive (0: any number); there are %d", s.p.name, s.liveBytes, heapBytes, t.Type, t.Limit, t.Entities)
		}
	}
}

// checkMemory checks that the limits of live entities do not rise after the sizes that entities have
// reported add up to too much memory. They may rise at the next collection.
func (s *shardNode) checkMemory() {
	sum := s.reportedBytes()
	first := s.limitsWhenOver == nil
	if first && (sum <= s.reportedAtCollection || s.liveBytes+uint64(sum-s.reportedAtCollection) <= heapBytes) {
		return
	}
	if first {
		s.w.mark("passivation: entities have grown too large")
		s.limitsWhenOver = map[sharding.EntityType]int{}
	}
	for _, t := range s.core.TypeStats() {
		if first {
			s.limitsWhenOver[t.Type] = t.Limit
		}
		if t.Limit == 0 || t.Limit > s.limitsWhenOver[t.Type] {
			s.w.violate("memory is bounded", "%s: the sizes that entities have reported add up to too much memory, and the limit of live entities of type %s is %d now (0: none); it was %d before", s.p.name, t.Type, t.Limit, s.limitsWhenOver[t.Type])
		}
	}
}

// checkLimits checks that no shard has more idle entities than the limit of its type. Those
// that wait for a timer do not count, nor those whose last turn is not stored yet, nor those that
// have had no turn: their loads may hang.
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
				if b.idleSince > 0 && !b.running && b.appends == 0 && b.timer == 0 && !repeating[b.entity] {
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
