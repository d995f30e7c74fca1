package turn

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/passivation"
)

// The policy of a type tracks every entity of the type that is in the machine, with these
// exceptions: entities that the policy has chosen to passivate, but which are not idle yet
// (entity.evicted); those that wait for a timer; and those that are being stopped, until a
// command comes for them. A policy that chooses an entity never costs a command: the entity is
// stopped when it is idle, and commands that come while it is being stopped load it again.

// Passivations counts passivations by their reason.
type Passivations struct {
	Idle  uint64 // idle for long
	Limit uint64 // chosen because there were more than the limit
	Asked uint64 // the entity asked for it
}

func (p *Passivations) add(o Passivations) {
	p.Idle += o.Idle
	p.Limit += o.Limit
	p.Asked += o.Asked
}

// String is the number of all, and of those that have another reason than being idle.
func (p Passivations) String() string {
	text := fmt.Sprint(p.Idle + p.Limit + p.Asked)
	if p.Limit > 0 {
		text += fmt.Sprintf(" limit:%d", p.Limit)
	}
	if p.Asked > 0 {
		text += fmt.Sprintf(" asked:%d", p.Asked)
	}
	return text
}

// node is the number by which policies know the entity.
func (e *entity) node() passivation.Entity { return passivation.Entity(e.inc.Slot()) }

// touch tells the policy that the entity has something to do. An entity that the policy has
// chosen, and that has not been stopped, counts like one that is not active: it stays if the
// policy takes it in again.
func (m *Machine) touch(e *entity) {
	e.evicted = false
	victims := e.shard.typ.policy.Touched(int(e.shard.id.Index), e.node(), e.idHash, m.victims[:0])
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
		if e.state == live && (!e.busy() && e.running == nil || mutant.On("busy-victim")) {
			m.passivate(e, &m.stats.Passivations.Limit)
		} else {
			e.evicted = true
		}
	}
}

// rest notes that a live entity is idle. One that waits for a timer is not: passivation
// would lose the timer.
func (m *Machine) rest(e *entity) {
	policy := e.shard.typ.policy
	switch {
	case len(e.timers) > 0 && !mutant.On("timer-holds"):
		e.evicted = false
		policy.Removed(e.node())
		return
	case e.evicted && !mutant.On("victim-stops"):
		m.passivate(e, &m.stats.Passivations.Limit)
		return
	case !policy.Tracks(e.node()):
		m.touch(e) // it has waited for a timer until now
	}
	if e.state != live {
		return // its own victim
	}
	if victims := policy.Rests(e.node(), m.now, m.victims[:0]); len(victims) > 0 {
		m.victims = victims
		m.evict(victims)
	}
}

// passivateIdle stops the entities that have been idle for long.
func (m *Machine) passivateIdle() {
	for _, ts := range m.types {
		m.victims = ts.policy.Idle(m.now, m.victims[:0])
		for _, v := range m.victims {
			m.passivate(m.slots[v].entity, &m.stats.Passivations.Idle)
		}
	}
}

// passivate stops a live entity that is idle, and counts it.
func (m *Machine) passivate(e *entity, reason *uint64) {
	*reason++
	m.stop(e, Passivated)
}

// checkPassivation verifies that the policies and the machine agree.
func (m *Machine) checkPassivation() error {
	for _, ts := range m.types {
		tracked := 0
		for _, e := range ts.entities { // order-free: any error is a bug
			_, rests := ts.policy.RestsSince(e.node())
			idle := e.state == live && !e.busy() && e.running == nil && len(e.timers) == 0 && e.shard.phase == open
			switch tracks := ts.policy.Tracks(e.node()); {
			case rests && !idle:
				return fmt.Errorf("turn: entity %s rests for its policy, but is not idle in state %d", e.id, e.state)
			case idle && !rests && (ts.policy.Strategy().Idle > 0 || ts.policy.Strategy().Limit > 0):
				return fmt.Errorf("turn: entity %s is idle, but does not rest for its policy", e.id)
			case tracks && e.evicted:
				return fmt.Errorf("turn: entity %s was chosen by its policy, which still tracks it", e.id)
			case tracks:
				tracked++
			}
		}
		if n := ts.policy.Len(); n != tracked {
			return fmt.Errorf("turn: the policy of %s tracks %d entities; there are %d", ts.Desc.Type, n, tracked)
		}
	}
	return nil
}
