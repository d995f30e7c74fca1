package turn

import (
	"github.com/roost-cluster/roost/libs/sharding"
)

// A quarantined entity has ended processes of regions, so none of its author's code may run. If a command arrives, the
// entity is loaded without an instance. A repeat of a stored command gets its reply, a built-in command runs, and any
// other command is refused.

// SetQuarantine lists the suspects and the quarantined entities of a type. It replaces the earlier list.
type SetQuarantine struct {
	Type sharding.EntityType
	List []sharding.Quarantined
}

func (SetQuarantine) input() {}

func (m *Machine) setQuarantine(in SetQuarantine) {
	ts := m.typ(in.Type)
	if ts == nil {
		return
	}
	ts.quarantine = make(map[sharding.EntityID]sharding.Quarantined, len(in.List))
	for _, q := range in.List {
		ts.quarantine[q.ID] = q
	}
	for _, q := range in.List {
		if e := m.lookUp(ts, q.ID); e != nil && e.state == live && e.running == nil && e.quarantined() {
			m.advance(e) // refuses the commands that wait, and ends the incarnation
		}
	}
}

// quarantined reports whether the entity is quarantined.
func (e *entity) quarantined() bool {
	ts := e.shard.typ
	// Invariant: a quarantined entity does not run. It stays quarantined under every later coordinator, and a region
	// knows of it before it runs any entity of the shard. An operator's quarantine counts as stored when the regions
	// that may run the entity know of it.
	// Mutants: quarantine-refuses, quarantine-kept, quarantine-first, quarantine-known, quarantine-obeyed
	if len(ts.quarantine) == 0 { //mutant:true quarantine-refuses
		return false
	}
	q, found := ts.quarantine[e.id]
	return found && !q.Suspect
}

// suspect reports whether the entity is a suspect.
func (e *entity) suspect() bool {
	ts := e.shard.typ
	return len(ts.quarantine) > 0 && ts.quarantine[e.id].Suspect
}

// Quarantined returns why an entity is quarantined, or false if it is not. The entity need not be in memory.
func (m *Machine) Quarantined(of sharding.Entity) (why string, quarantined bool) {
	ts := m.typ(of.Type)
	if ts == nil {
		return "", false
	}
	if q, found := ts.quarantine[of.ID]; found && !q.Suspect {
		return q.Why, true
	}
	return "", false
}

// refuseQuarantined refuses a command of a quarantined entity.
func (m *Machine) refuseQuarantined(e *entity, c *command) {
	reply := sharding.Reject(sharding.EntityQuarantined, e.quarantineText())
	if c.inDoubt {
		reply = sharding.Doubt(sharding.EntityQuarantined, e.quarantineText())
	}
	m.answer(e, c, &reply)
}

func (e *entity) quarantineText() string {
	return "the entity is quarantined " + e.shard.typ.quarantine[e.id].Why
}

// endQuarantined ends the incarnation of a quarantined entity that has no commands. Its stop hook does not
// run.
func (m *Machine) endQuarantined(e *entity) {
	m.emit(Drop{Entity: e.address(), Incarnation: e.inc})
	m.clearTimers(e)
	m.removeEntity(e)
}
