package turn

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Status of the state in memory, for operators. No decision depends on it, and the methods here change nothing.

// EntityStatus is an entity in memory, as operators see it.
type EntityStatus struct {
	Entity sharding.Entity
	Shard  sharding.ShardID
	Epoch  sharding.Epoch // of the shard
	State  string
	// Incarnation is the present one.
	Incarnation Incarnation
	// Mailbox is the number of commands that are not answered, with the running one. OldestSince is the arrival
	// time of the first of them; zero: there are none.
	Mailbox     int
	OldestSince time.Time
	// Running is the command whose turn runs; empty: none. The turn has begun at RunningSince. It may
	// wait for the answer of the entity WaitsFor.
	Running      string
	RunningSince time.Time
	WaitsFor     sharding.Entity
	// IdleSince is the time at which it became idle. Zero: it is not idle, or the strategy of its type does not
	// measure that.
	IdleSince time.Time
	// Durable is the number of its newest durable record, Staged the number of its newest record.
	Durable, Staged uint64
	Bytes           int // its size, as far as it tells it
}

// String returns the name of the state, for operators.
func (s entityState) String() string {
	switch s {
	case loading:
		return "loading"
	case live:
		return "active"
	case stopping:
		return "stopping"
	case settling, lookup:
		return "settling"
	case settleRefused:
		return "damaged"
	}
	return "ending"
}

// EntityFilter selects the entities of a shard that are listed.
type EntityFilter struct {
	Prefix string            // of their ids
	After  sharding.EntityID // those after this id
	// RunningSince, if it is set, lists only entities with a turn that began then or before.
	RunningSince time.Time
}

func (f *EntityFilter) wants(e *entity) bool {
	id := e.id
	switch {
	case id <= f.After && f.After != "", !strings.HasPrefix(string(id), f.Prefix):
		return false
	case f.RunningSince.IsZero():
		return true
	}
	return e.running != nil && !e.running.began().After(f.RunningSince)
}

// began returns when the running turn of the command has begun.
func (c *command) began() time.Time { return c.arrived.Add(c.reply.Timing.Mailbox) }

// EntitiesOf returns the first n of those entities of a shard that a filter wants, in the order of
// their ids, and how many entities it has looked at.
func (m *Machine) EntitiesOf(id sharding.ShardID, f EntityFilter, n int) (list []EntityStatus, looked int) {
	s := m.shard(id)
	if s == nil {
		return nil, 0
	}
	wanted := func(yield func(*entity) bool) {
		for e := range m.entitiesOf(s) {
			if f.wants(e) && !yield(e) {
				return
			}
		}
	}
	for _, e := range priority.First(wanted, n, func(a, b *entity) int { return cmp.Compare(a.id, b.id) }) {
		list = append(list, m.status(e))
	}
	return list, len(s.entities)
}

// Entity returns an entity, and false if it is not in memory.
func (m *Machine) Entity(id sharding.Entity) (EntityStatus, bool) {
	if ts := m.typ(id.Type); ts != nil {
		if e := m.lookUp(ts, id.ID); e != nil {
			return m.status(e), true
		}
	}
	return EntityStatus{}, false
}

// TimerStatus is a timer of an entity, as operators see it.
type TimerStatus struct {
	Timer
	Due time.Time // when it fires next
}

// Timers returns the first n timers of an entity that are due, in this order, and how many it has.
func (m *Machine) Timers(id sharding.Entity, n int) (list []TimerStatus, all int) {
	ts := m.typ(id.Type)
	if ts == nil {
		return nil, 0
	}
	e := m.lookUp(ts, id.ID)
	if e == nil {
		return nil, 0
	}
	first := priority.First(slices.Values(e.timers), n, func(a, b *timer) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.Name, b.Name)) })
	for _, t := range first {
		list = append(list, TimerStatus{Timer: t.Timer, Due: t.due})
	}
	return list, len(e.timers)
}

func (m *Machine) status(e *entity) EntityStatus {
	st := EntityStatus{
		Entity: e.address(), Shard: e.shard.id, Epoch: e.shard.epoch, State: e.state.String(), Incarnation: e.inc, Durable: e.durable, Staged: e.staged, Bytes: m.size(e),
	}
	for _, c := range e.cmds {
		if c.answered {
			continue
		}
		if st.Mailbox++; st.Mailbox == 1 {
			st.OldestSince = c.arrived
		}
	}
	if c := e.running; c != nil {
		st.Running, st.RunningSince = c.env.Command, c.began()
		if e.ask != nil {
			st.WaitsFor = e.ask.env.Entity
		}
	}
	st.IdleSince, _ = e.shard.typ.policy.IdleSince(e.node())
	return st
}
