package turn

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// An entity of a type with Type.Remember is remembered from its first record on that has
// events, wake-ups or sends. That record also sets a wake-up of the kind sharding.RememberWake, which
// stands until a turn says otherwise (TurnDone.Forgotten). Whoever opens the shard reads these
// wake-ups and brings the entities back to life, each by an Activate.

// RememberEvery is how old the last activity of a remembered entity may be, as its wake-up says,
// before its next record says it again: the order in which entities are started needs no more.
const RememberEvery = time.Hour

// noteRemembered adds to what a turn has staged the change of the wake-up of the entity itself.
func (m *Machine) noteRemembered(e *entity, c *command, st *staged, forgotten bool) {
	if !e.shard.typ.Remember || c.ends != nil || c.desc.ReadOnly || c.reply.Outcome != sharding.OK {
		return
	}
	w := sharding.Wake{Kind: sharding.RememberWake}
	now := max(1, m.now.UnixMilli())
	switch {
	case st.deleted: // the journal removes all wake-ups of the entity
		e.rememberedActivity, e.forgottenBy = 0, e.staged+1
		return
	case forgotten:
		if e.rememberedActivity == 0 {
			return
		}
		e.rememberedActivity, e.forgottenBy = 0, e.staged+1
	case st.empty() || e.rememberedActivity > 0 && now-e.rememberedActivity < RememberEvery.Milliseconds() || mutant.On("remembered"):
		return
	default:
		e.rememberedActivity, e.forgottenBy = now, 0
		w.Due = -now
	}
	st.wakes = append(slices.Clip(st.wakes), w)
}

// activate brings an entity to life for which no command waits.
func (m *Machine) activate(in *Activate) {
	s := m.shard(in.Shard)
	if s == nil || s.phase != open || s.epoch != in.Epoch {
		m.emitShardEvent(ActivationEnded{Shard: in.Shard, Epoch: in.Epoch, Entity: in.Entity, End: ActivationGone})
		return
	}
	e := s.typ.entities[in.Entity.ID]
	switch {
	case e == nil && m.mayActivate(in.Entity):
		e = m.newEntity(s, in.Entity)
		e.activating = true
		m.load(e)
	case e == nil, e.state == live && e.bare:
		m.emitShardEvent(ActivationEnded{Shard: in.Shard, Epoch: in.Epoch, Entity: in.Entity, End: ActivationBusy})
	case e.state == live || e.state == stopping:
		e.activating = true
		m.endActivation(e, ActivationDone, "", "")
	default: // it ends when the entity is live, or is removed
		e.activating = true
		if e.state == unsettled {
			e.state = settling
			m.emitSettle(e)
		}
	}
}

// mayActivate reports whether an entity may be loaded for which no command waits. Such loads take
// at most half of the limit, so that commands find room.
func (m *Machine) mayActivate(id sharding.Entity) bool {
	return m.mayLoad(id, false) && (2*len(m.loads.inFlight) < m.limit.Loads || mutant.On("activations-last"))
}

// endActivation ends the Activate of the entity, if there is one.
func (m *Machine) endActivation(e *entity, end ActivationEnd, code sharding.Code, message string) {
	if !e.activating {
		return
	}
	e.activating = false
	m.emitShardEvent(ActivationEnded{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.id, End: end, Code: code, Message: message})
}

// noteRemoved reports that an entity was removed from the machine, if it is a remembered entity or
// an Activate waits for it.
func (m *Machine) noteRemoved(e *entity) {
	if e.shard.phase != open {
		m.endActivation(e, ActivationGone, "", "")
		return
	}
	m.noteDead(e, sharding.Unavailable, "its load was given up")
}

// noteDead reports, in the same cases, that the entity is not alive although its shard is open.
func (m *Machine) noteDead(e *entity, code sharding.Code, why string) {
	switch {
	case e.activating:
		m.endActivation(e, ActivationFailed, code, why)
	case e.mayBeRemembered() && !mutant.On("remembered-lost"):
		m.emitShardEvent(RememberedLost{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.id})
	}
}

// mayBeRemembered reports whether the wake-up of the entity itself stands, or may stand because it
// is not known that its removal is durable.
func (e *entity) mayBeRemembered() bool {
	return e.rememberedActivity != 0 || e.forgottenBy > e.durable || mutant.On("forgotten-durable") && e.forgottenBy > 0
}

// forgottenBefore reports whether an entity that was loaded only because it is remembered is not
// remembered any more.
func (e *entity) forgottenBefore(in *Loaded) bool {
	return e.activating && in.RememberedActivity == 0 && len(e.cmds) == 0
}
