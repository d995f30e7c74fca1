package router

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ShardStatus is a router's view of a shard, for operators. No decision depends on it.
type ShardStatus struct {
	Known bool // the table has the type
	Row   sharding.Row
	// Coordinator is the address of the active one, as far as is known.
	Coordinator string
	Linked      bool // the link to the owner is up
	// Waiting counts the commands that are not sent, Sent those that are sent and not answered. The oldest
	// of both was admitted at Oldest; zero: there are none.
	Waiting, Sent int
	Oldest        time.Time
	// Room is the number of commands of the shard that would still be admitted.
	Room int
	// Refusal is the message of the last region that refused one of these commands, which is sent
	// again.
	Refusal string
}

// Coordinator is the address of the active coordinator; empty: none is known.
func (m *Machine) Coordinator() string {
	if m.cfg.Fed {
		return m.active
	}
	active, _ := m.watch.Active()
	return active
}

// Status returns what the router has of the shard of an entity.
func (m *Machine) Status(e sharding.Entity) (st ShardStatus) {
	st.Coordinator = m.Coordinator()
	t, known := m.table.Type(e.Type)
	if !known {
		return st
	}
	id := t.ShardOf(e.ID)
	st.Known, st.Room = true, min(m.cfg.MaxWaiting, m.cfg.MaxTotal-len(m.requests))
	st.Row, _ = m.table.Row(id)
	st.Row.Shard = id
	if l := m.links[st.Row.Owner]; l != nil {
		st.Linked = l.up
	}
	s := m.shards[id]
	if s == nil {
		return st
	}
	st.Waiting, st.Sent = s.waiting, s.count-s.waiting
	st.Room = min(st.Room, m.cfg.MaxWaiting-s.count)
	if s.first != nil {
		st.Oldest = s.first.since
	}
	for r := s.first; r != nil; r = r.next {
		if r.failure != "" {
			st.Refusal = r.failure
		}
	}
	return st
}
