package turn

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
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
	if !e.shard.typ.Remember || c.endedSend != nil || c.desc.ReadOnly || c.reply.Outcome != sharding.OK {
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
	case st.empty() || e.rememberedActivity > 0 && now-e.rememberedActivity < RememberEvery.Milliseconds() || mutant.On("remembered"):
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
	return m.mayLoad(id, false) && (2*len(m.loads.inFlight) < m.limit.Loads || mutant.On("starts-last"))
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
	case e.mayBeRemembered() && !mutant.On("remembered-lost"):
		m.emitShardEvent(RememberedLost{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address()})
	}
}

// mayBeRemembered reports whether the RememberWake of the entity stands, or may stand because it is not
// known that its removal is durable.
func (e *entity) mayBeRemembered() bool {
	return e.rememberedActivity != 0 || e.unrememberedBy > e.durable || mutant.On("forgotten-durable") && e.unrememberedBy > 0
}

// startedInVain reports whether an entity was loaded only because it was remembered, and the load
// shows that it was no longer remembered.
func (e *entity) startedInVain(in *Loaded) bool {
	return e.starting && in.RememberedActivity == 0 && len(e.cmds) == 0
}
