package region

import (
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// Lists of failing work, for operators, from memory. The methods here change nothing, and no
// decision depends on their results. They list at most limit failures of an entity, of a type if
// the entity has no id, or of all if it is zero: those that have lasted longest.

// FailingReminders returns reminders that are failing.
func (m *ShardCore) FailingReminders(of sharding.Entity, limit int) []wakeup.Failing {
	return m.wakeups.Failing(of, limit)
}

// FailingReminder returns a reminder if it is failing.
func (m *ShardCore) FailingReminder(e sharding.Entity, name string) (wakeup.Failing, bool) {
	return m.wakeups.FailingOf(m.shardIDOf(e), e, name)
}

// FailingStarts returns remembered entities that could not be started, or have died.
func (m *ShardCore) FailingStarts(of sharding.Entity, limit int) []wakeup.Failing {
	return m.starter.Failing(of, limit)
}

// FailingStart returns a remembered entity if it could not be started, or has died.
func (m *ShardCore) FailingStart(e sharding.Entity) (wakeup.Failing, bool) {
	return m.starter.FailingOf(e)
}

// FailingSends returns sends that are failing.
func (m *ShardCore) FailingSends(of sharding.Entity, limit int) []outbox.Failing {
	return m.sends.Failing(of, limit)
}

// FailingSend returns the send that blocks later sends from one entity to another one, if it is failing.
func (m *ShardCore) FailingSend(from, to sharding.Entity) (outbox.Failing, bool) {
	return m.sends.FailingOf(m.shardIDOf(from), from, to)
}

// DiedSend returns why a send has become a dead letter, if this core remembers it.
func (m *ShardCore) DiedSend(from sharding.Entity, seq uint64, place uint16) (outbox.Died, bool) {
	return m.sends.Died(from, seq, place)
}

// FailingTypes counts what is failing by the type of entities: reminders, sends by the type of
// their senders, and starts.
func (m *ShardCore) FailingTypes() (reminders, sends, starts map[sharding.EntityType]int) {
	return m.wakeups.FailingTypes(), m.sends.FailingTypes(), m.starter.FailingTypes()
}

// shardIDOf is the shard of an entity, zero if its type is not hosted.
func (m *ShardCore) shardIDOf(e sharding.Entity) sharding.ShardID {
	t := m.typ(e.Type)
	if t == nil {
		return sharding.ShardID{}
	}
	return t.desc.ShardOf(e.ID)
}
