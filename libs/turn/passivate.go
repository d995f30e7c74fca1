package turn

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The policy of a type tracks every entity of the type that is in the machine, with these
// exceptions: entities that the policy has chosen to passivate, but which are not idle yet
// (entity.evicted); those that wait for a timer; and those that are being stopped, until a
// command comes for them. A policy that chooses an entity never costs a command: the entity is
// stopped when it is idle, and commands that come while it is being stopped load it again.

func (SetPassivation) input() {}
func (Collected) input()      {}

// Passivations counts passivations by their reason.
type Passivations struct {
	Idle  uint64 // idle for long
	Limit uint64 // chosen because there were more than the limit
	// Memory: chosen because there were more than there is memory for.
	Memory uint64
	Asked  uint64 // the entity has asked to be stopped
}

func (p *Passivations) add(o Passivations) {
	p.Idle += o.Idle
	p.Limit += o.Limit
	p.Memory += o.Memory
	p.Asked += o.Asked
}

// String returns the number of all passivations, and of those for other reasons than being idle.
func (p Passivations) String() string {
	text := fmt.Sprint(p.Idle + p.Limit + p.Memory + p.Asked)
	if p.Limit > 0 {
		text += fmt.Sprintf(" limit:%d", p.Limit)
	}
	if p.Memory > 0 {
		text += fmt.Sprintf(" memory:%d", p.Memory)
	}
	if p.Asked > 0 {
		text += fmt.Sprintf(" asked:%d", p.Asked)
	}
	return text
}

// node returns the number of the entity in passivation policies.
func (e *entity) node() passivation.Entity { return passivation.Entity(e.inc.Slot()) }

// touch tells the policy that the entity has something to do. An entity that the policy has chosen counts as
// not active for the policy. If such an entity was not stopped yet, and the policy admits it again, it stays.
func (m *Machine) touch(e *entity) {
	e.evicted = false
	policy, hash := e.shard.typ.policy, uint32(0)
	if !policy.Tracks(e.node()) { // else it knows the hash
		hash = uint32(e.id.Hash() >> 32)
	}
	victims := policy.Touched(int(e.shard.id.Index), e.node(), hash, m.victims[:0])
	if len(victims) > 0 {
		m.victims = victims // its memory is used again
		m.evict(victims)
	}
}

// evict stops the entities that a policy has chosen because of its limit, each as soon as it
// is idle.
func (m *Machine) evict(victims []passivation.Entity) {
	for _, v := range victims {
		e := m.slots[v].entity
		// Invariant: passivation loses no command. If the policy has chosen an entity, the entity is stopped when the
		// entity is idle, and not earlier.
		// Mutants: busy-victim, victim-stops
		if e.state == live && !e.busy() && e.running == nil { //mutant:true busy-victim !e.busy() && e.running == nil
			m.passivate(e, e.shard.typ.limitReason())
		} else {
			e.evicted = true
		}
	}
}

// markIdle records since when a live entity has been idle. An entity that waits for a timer does not
// count as idle, because passivation would lose the timer.
func (m *Machine) markIdle(e *entity, since time.Time) {
	policy := e.shard.typ.policy
	switch {
	// Invariant: an entity that waits for its own timer is not passivated.
	// Mutants: timer-holds
	case len(e.timers) > 0: //mutant:false timer-holds
		e.evicted = false
		policy.Removed(e.node())
		return
	case e.evicted: //mutant:false victim-stops
		m.passivate(e, e.shard.typ.limitReason())
		return
	case !policy.Tracks(e.node()):
		m.touch(e) // the policy does not have the entity, because it has waited for a timer until now
	}
	if e.state != live {
		return // the policy has chosen this entity itself
	}
	if victims := policy.MarkIdle(e.node(), since, m.victims[:0]); len(victims) > 0 {
		m.victims = victims
		m.evict(victims)
	}
}

// passivateIdle stops the entities that have been idle for long.
func (m *Machine) passivateIdle() {
	for _, ts := range m.types {
		m.victims = ts.policy.TakeExpired(m.now, m.victims[:0])
		for _, v := range m.victims {
			m.passivate(m.slots[v].entity, &ts.passivations.Idle)
		}
	}
}

// limitReason returns the counter for the passivation of an entity that the policy has chosen.
func (ts *typeState) limitReason() *uint64 {
	if ts.policy.Shrunk() > 0 {
		return &ts.passivations.Memory
	}
	return &ts.passivations.Limit
}

// passivate stops a live entity that is idle, and counts it.
func (m *Machine) passivate(e *entity, reason *uint64) {
	*reason++
	m.stop(e, Passivated)
}

// setPassivation changes the strategy of a type. If only numbers change, its policy continues. Otherwise there
// is a new policy, which gets all entities; those that have been idle for the longest time come first. The
// new policy does not know how often the entities were used.
func (m *Machine) setPassivation(in *SetPassivation) {
	ts := m.typ(in.Type)
	if ts == nil || in.Strategy.Validate() != nil {
		return
	}
	ts.Passivation = in.Strategy
	ts.bound.SetLimit(limitOf(in.Strategy))
	victims, ok := ts.policy.Change(in.Strategy, m.victims[:0])
	if m.victims = victims; ok {
		m.evict(victims)
		m.shrink(ts)
		return
	}
	old := ts.policy
	ts.policy = passivation.New(in.Strategy, len(ts.shards), m.nodes)
	for i, s := range ts.shards {
		if s != nil {
			ts.policy.Open(i, nil)
		}
	}
	type idleEntity struct {
		*entity
		since time.Time
	}
	var idle []idleEntity
	var others []*entity
	for e := range m.entitiesOfType(ts) {
		if since, is := old.IdleSince(e.node()); is {
			idle = append(idle, idleEntity{e, since})
		} else {
			others = append(others, e)
		}
		old.Removed(e.node())
	}
	slices.SortFunc(idle, func(a, b idleEntity) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.node(), b.node())) })
	slices.SortFunc(others, func(a, b *entity) int { return cmp.Compare(a.node(), b.node()) })
	for _, e := range idle {
		m.markIdle(e.entity, e.since)
	}
	for _, e := range others {
		switch {
		case e.state == live && !e.busy() && e.running == nil:
			m.markIdle(e, m.now)
		case e.state != stopping || len(e.cmds) > 0:
			m.touch(e)
		}
	}
	m.shrink(ts)
}

// limitOf returns the limit of a strategy; if the strategy has none, the highest possible limit.
func limitOf(s passivation.Strategy) int {
	if s.Limit > 0 {
		return s.Limit
	}
	return passivation.MaxLimit
}

// heapState holds the measured sizes of the heap and of all entities.
type heapState struct {
	live  uint64 // the size of the heap after the last collection
	bytes int    // the size of all entities whose size is known, now
	then  int    // that size at the last collection
	// full is true if the number of live entities must not grow until the next collection.
	full bool
}

// setSize notes the size of an entity.
func (m *Machine) setSize(e *entity, size int) {
	size = min(size, math.MaxUint32)
	more := size - m.size(e)
	m.heap.bytes += more
	e.shard.typ.bytes += more
	e.shard.bytes += more
	m.slots[e.inc.Slot()].size = uint32(size)
}

// size returns the size of an entity, in bytes, as the driver has reported it; 0: not known.
func (m *Machine) size(e *entity) int { return int(m.slots[e.inc.Slot()].size) }

// grown notes the size that the driver has reported for an entity. If entities have grown so much since the
// last collection that the heap is too large, no more entities may be alive until the next collection.
func (m *Machine) grown(e *entity, size int) {
	if size <= 0 || size == m.size(e) {
		return
	}
	m.setSize(e, size)
	h := &m.heap
	//mutant:true told-sizes
	if grown := h.bytes - h.then; m.cfg.HeapBytes == 0 || h.full || grown <= 0 || h.live+uint64(grown) <= m.cfg.HeapBytes {
		return
	}
	h.full = true
	for _, ts := range m.types {
		m.shrink(ts)
	}
}

// collected lowers or raises the number of entities that may be alive, after a collection of garbage.
func (m *Machine) collected(in Collected) {
	m.heap.live, m.heap.then, m.heap.full = in.Live, m.heap.bytes, false
	for _, ts := range m.types {
		// Invariant: entities that can be passivated do not keep the live heap above its share of the memory for long.
		// Mutants: heap-bound, told-sizes
		//mutant:do heap-bound continue
		//mutant:false idle-bound
		if ts.entities.count == 0 && in.Live > m.cfg.HeapBytes {
			continue // the type has nothing to give up, and would be left with one entity as long as other types fill the heap
		}
		ts.bound.Observe(in.Cycle, in.Live, ts.policy.Len())
		m.shrink(ts)
	}
}

// shrink gives the policy of a type the limit that memory allows.
func (m *Machine) shrink(ts *typeState) {
	n := ts.bound.Limit()
	if m.heap.full {
		n = max(1, min(n, ts.policy.Len()))
	}
	if n >= limitOf(ts.Passivation) {
		n = 0
	}
	m.victims = ts.policy.Shrink(n, m.victims[:0])
	m.evict(m.victims)
}

// TypeStats counts the entities of a type that are alive, and holds their limit.
type TypeStats struct {
	Type     sharding.EntityType
	Strategy passivation.Strategy
	Entities int // alive or being loaded
	// Limit is the maximum number that may be alive, by the strategy and by memory; 0: any number.
	Limit        int
	Bytes        int // of the entities whose size is known
	Passivations Passivations
}

// Add adds the counts of another machine with the same types.
func (s *TypeStats) Add(o *TypeStats) {
	s.Entities += o.Entities
	if s.Limit == 0 || o.Limit == 0 {
		s.Limit = 0 // one of them may have any number
	} else {
		s.Limit += o.Limit
	}
	s.Bytes += o.Bytes
	s.Passivations.add(o.Passivations)
}

// TypeStats returns the counts of each type, in the order of the configuration.
func (m *Machine) TypeStats() []TypeStats {
	var list []TypeStats
	for _, ts := range m.types {
		s := TypeStats{Type: ts.Desc.Type, Strategy: ts.Passivation, Entities: ts.entities.count, Limit: ts.Passivation.Limit, Bytes: ts.bytes, Passivations: ts.passivations}
		if n := ts.policy.Shrunk(); n > 0 {
			s.Limit = n
		}
		list = append(list, s)
	}
	return list
}

// checkPassivation verifies that the policies and the machine agree.
func (m *Machine) checkPassivation() error {
	for _, ts := range m.types {
		tracked, bytes := 0, 0
		for e := range m.entitiesOfType(ts) {
			bytes += m.size(e)
			_, marked := ts.policy.IdleSince(e.node())
			idle := e.state == live && !e.busy() && e.running == nil && len(e.timers) == 0 && e.shard.phase == open
			switch tracks := ts.policy.Tracks(e.node()); {
			case marked && !idle:
				return fmt.Errorf("turn: entity %s is idle for its policy, but not in state %d", e.address(), e.state)
			case idle && !marked && (ts.policy.Strategy().Idle > 0 || ts.policy.Strategy().Limit > 0):
				return fmt.Errorf("turn: entity %s is idle, but not for its policy", e.address())
			case tracks && e.evicted:
				return fmt.Errorf("turn: entity %s was chosen by its policy, which still tracks it", e.address())
			case tracks:
				tracked++
			}
		}
		if bytes != ts.bytes {
			return fmt.Errorf("turn: counted %d bytes of entities of %s; there are %d", ts.bytes, ts.Desc.Type, bytes)
		}
		if n := ts.policy.Len(); n != tracked {
			return fmt.Errorf("turn: the policy of %s tracks %d entities; there are %d", ts.Desc.Type, n, tracked)
		}
	}
	return nil
}
