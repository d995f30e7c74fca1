package turn

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// An entity of a type with Remember is remembered from its first record on that has events,
// wake-ups or sends. That record also sets a wake-up of the kind sharding.RememberWake, which stands
// until a turn removes it (TurnDone.Forgotten). The region that opens the shard reads these wake-ups
// and brings the entities back to life, each by a StartEntity.

// RememberEvery is the maximum age of a remembered entity's last activity in its wake-up. Above it, the next
// record of the entity stores it again: the start order of entities needs no more precision.
const RememberEvery = time.Hour

// noteRemembered adds the change of the entity's RememberWake, if there is one, to the turn's staged data. If
// unremembered is true, the turn wants the entity not to be remembered any more.
func (m *Machine) noteRemembered(e *entity, c *command, st *staged, unremembered bool) {
	if !e.shard.typ.Remember || c.endedSend != nil || c.desc.ReadOnly || c.reply.Outcome != sharding.Executed {
		return
	}
	w := sharding.Wake{Kind: sharding.RememberWake}
	now := max(1, m.now.UnixMilli())
	switch {
	case st.deleted: // the journal removes all wake-ups of the entity
		e.rememberedActivity, e.unrememberedBy = 0, e.staged+1
		return
	case unremembered:
		if e.rememberedActivity == 0 {
			return
		}
		e.rememberedActivity, e.unrememberedBy = 0, e.staged+1
		// Invariant: a remembered entity of a served shard stays alive until it is passivated.
		// Guarded by: `turn.noteRemembered`: if a type has `Remember` and one of its entities has no `RememberWake`
		// yet, the next record of this entity sets this wake-up. `turn.noteRemoved` reports a remembered entity that
		// has ended in any way other than passivation. The reported entity is started again.
		// Mutants: remembered, remembered-lost
		//mutant:true remembered
	case st.empty() || e.rememberedActivity > 0 && now-e.rememberedActivity < RememberEvery.Milliseconds():
		return
	default:
		e.rememberedActivity, e.unrememberedBy = now, 0
		w.Due = -now
	}
	st.wakes = append(slices.Clip(st.wakes), w)
}

// startEntity brings an entity to life although no command waits for it.
func (m *Machine) startEntity(in *StartEntity) {
	s := m.shard(in.Shard)
	if s == nil || s.phase != open || s.epoch != in.Epoch {
		m.emitShardEvent(StartEnded{Shard: in.Shard, Epoch: in.Epoch, Entity: in.Entity, End: StartGone})
		return
	}
	e := m.lookUp(s.typ, in.Entity.ID)
	switch {
	case e == nil && m.mayStart(in.Entity):
		e = m.newEntity(s, in.Entity.ID)
		e.starting = true
		m.load(e)
	case e == nil, e.state == live && e.bare:
		m.emitShardEvent(StartEnded{Shard: in.Shard, Epoch: in.Epoch, Entity: in.Entity, End: StartPostponed})
	case e.state == live || e.state == stopping:
		e.starting = true
		m.endStart(e, StartDone, "", "")
	default: // the StartEntity ends when the entity is live, or is removed
		e.starting = true
		if e.state == settleRefused {
			e.state = settling
			m.emitSettle(e)
		}
	}
}

// mayStart reports whether an entity may be loaded although no command waits for it. Such loads take at most
// half of the limit, so that commands find room.
func (m *Machine) mayStart(id sharding.Entity) bool {
	// Invariant: starting remembered entities does not keep commands waiting.
	// Guarded by: `turn.mayStart` and `commit.Load`: at most half of the loads are starts of remembered entities.
	// Mutants: starts-last, background-loads
	//mutant:true starts-last 2*len(m.loads.inFlight) < m.limit.Loads
	return m.mayLoad(id, false) && 2*len(m.loads.inFlight) < m.limit.Loads
}

// endStart ends the StartEntity of the entity, if there is one.
func (m *Machine) endStart(e *entity, end StartEnd, code sharding.Code, message string) {
	if !e.starting {
		return
	}
	e.starting = false
	m.emitShardEvent(StartEnded{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), End: end, Code: code, Message: message})
}

// noteRemoved reports that an entity was removed from the machine, if it is a remembered entity or
// a StartEntity waits for it.
func (m *Machine) noteRemoved(e *entity) {
	if e.shard.phase != open {
		m.endStart(e, StartGone, "", "")
		return
	}
	m.noteDead(e, sharding.Unavailable, "its load was given up")
}

// noteDead reports, in the same cases, that the entity is not alive although its shard is open.
func (m *Machine) noteDead(e *entity, code sharding.Code, why string) {
	switch {
	case e.starting:
		m.endStart(e, StartFailed, code, why)
	case e.mayBeRemembered(): //mutant:false remembered-lost
		m.emitShardEvent(RememberedLost{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address()})
	}
}

// mayBeRemembered reports whether the RememberWake of the entity stands, or may stand because it is not
// known that its removal is durable.
func (e *entity) mayBeRemembered() bool {
	// Invariant: an entity that is no longer remembered is not started again. If the region learns only after the start
	// that the entity is no longer remembered, the entity is passivated.
	// Guarded by: `turn.mayBeRemembered`: an entity counts as remembered until the removal of its wake-up is durable.
	// `turn.startedInVain`: the load of the entity shows that the wake-up is gone.
	// Mutants: forgotten-durable, forgotten-stops
	//mutant:do forgotten-durable return e.rememberedActivity != 0 || e.unrememberedBy > e.durable || e.unrememberedBy > 0
	return e.rememberedActivity != 0 || e.unrememberedBy > e.durable
}

// startedInVain reports whether an entity was loaded only because it was remembered, and the load
// shows that it was no longer remembered.
func (e *entity) startedInVain(in *Loaded) bool {
	return e.starting && in.RememberedActivity == 0 && len(e.cmds) == 0
}
