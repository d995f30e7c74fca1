package router

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// served returns the shard's row, and whether commands may be sent by it.
func (m *Machine) served(s *shard) (sharding.Row, bool) {
	row, ok := m.table.Row(s.id)
	// Invariant: if a region has refused an epoch of a shard, a router sends the region nothing more at this epoch.
	// Mutants: refused-epoch, late-refusal
	//mutant:true refused-epoch row.Epoch > s.refused
	return row, ok && row.Phase == sharding.Serving && row.Epoch > s.refused
}

// flush sends the waiting commands in order of admission, up to the first request that blocks. A
// request that rests holds up only later ones for the same entity.
func (m *Machine) flush(s *shard) {
	if s.waiting == 0 {
		return
	}
	// Invariant: if no region reads the shard of a command, the command is refused at once, with the reason.
	// Mutants: unreadable-waits
	if m.unreadable(s) { //mutant:false unreadable-waits
		m.refuseWaiting(s)
		return
	}
	if m.now.Before(s.pausedUntil) {
		return
	}
	row, ok := m.served(s)
	if !ok {
		m.flushChained(s)
		return
	}
	l := m.need(row.Owner)
	if l == nil || !l.up {
		return
	}
	clear(m.rests)
	s.restsUntil = time.Time{}
	r := s.first
	// Invariant: commands keep their order when a shard moves. The router sends commands in admission order. If the
	// router sends commands again, it does so in admission order too.
	// Guarded by: `router.flush`; `router.reenter` (re-entry). If a command is in doubt and must not be repeated, later
	// commands wait. `router.overtaken`: if a later command for the same entity is in doubt, a refused command is not
	// sent again.
	// Mutants: flush-order, re-entry, doubt-holds, overtaken
	//mutant:do flush-order r = s.last
	for r != nil && !r.blocks {
		next := r.next
		//mutant:do flush-order next = r.prev
		switch {
		case r.sent:
		case !m.now.Before(r.env.Deadline):
			m.expire(r)
		case m.now.Before(r.restsUntil):
			s.restsUntil = earlier(s.restsUntil, r.restsUntil)
			m.rests[r.env.Entity.ID] = true
		case m.rests[r.env.Entity.ID]: //mutant:false rest-order
		default:
			m.waiting--
			s.waiting--
			r.sent, r.epoch = true, row.Epoch
			m.send(r, l)
		}
		r = next
	}
}

// flushChained sends those commands for a shard in handoff that entities of this very shard wait
// for: the handoff cannot end before they are answered. They pass the other commands, which wait
// for the next owner.
func (m *Machine) flushChained(s *shard) {
	row, ok := m.table.Row(s.id)
	desc, known := m.table.Type(s.id.Type)
	if !ok || !known || row.Phase != sharding.HandingOff || row.Epoch <= s.refused { //mutant:true route-chained
		return
	}
	for r := s.first; r != nil && !r.blocks; r = r.next {
		if m.now.Before(r.restsUntil) {
			s.restsUntil = earlier(s.restsUntil, r.restsUntil)
			continue
		}
		if r.sent || !m.now.Before(r.env.Deadline) || !chained(r.env.Chain, s.id, desc) {
			continue
		}
		l := m.need(row.Owner)
		if l == nil || !l.up {
			return
		}
		m.waiting--
		s.waiting--
		r.sent, r.epoch = true, row.Epoch
		m.send(r, l)
	}
}

// chained reports whether a chain has an entity of the shard, whose type is desc.
func chained(chain []sharding.Entity, id sharding.ShardID, desc *sharding.TypeDesc) bool {
	return slices.ContainsFunc(chain, func(e sharding.Entity) bool {
		return e.Type == id.Type && desc.ShardOf(e.ID) == id
	})
}

// unreadable reports whether the shard waits for a region that can read its stored data. The length
// of that wait is unknown.
func (m *Machine) unreadable(s *shard) bool {
	row, ok := m.table.Row(s.id)
	return ok && row.Reason == sharding.Unreadable && row.Epoch > s.refused
}

// refuseWaiting ends the waiting commands of a shard that is not readable.
func (m *Machine) refuseWaiting(s *shard) {
	const why = "no running region reads the stored data of the entity's shard; start one of a version that reads it, see roost rollout status"
	for r := s.first; r != nil; {
		next := r.next
		switch {
		case r.sent:
		case r.inDoubt():
			m.finish(r, sharding.Doubt(sharding.Unavailable, "the command may or may not have been applied: "+why), r.region)
		default:
			m.finish(r, sharding.Reject(sharding.Unavailable, "not applied: "+why), sharding.NodeID{})
		}
		r = next
	}
}

// send makes an attempt at the request's epoch.
func (m *Machine) send(r *request, l *link) {
	m.next++
	a := reuse(&m.spareAttempts)
	*a = attempt{id: m.next, r: r, epoch: r.epoch, region: l.region, link: l.number}
	m.attempts[a.id] = a
	r.unanswered = append(r.unanswered, a.id)
	r.attempts++
	r.region = l.region
	l.unanswered++
	env := r.env
	env.Deadline = m.answerBy(env.Deadline)
	m.emit(SendCommand{Region: l.region, Link: l.number, Attempt: a.id, Epoch: r.epoch, Shard: r.shard.id, Env: env})
}

// answerBy returns the latest time for a region to answer a command: a little before its time is
// over, since the answer must still arrive.
func (m *Machine) answerBy(deadline time.Time) time.Time {
	//mutant:do answer-reserve return deadline
	return deadline.Add(-min(deadline.Sub(m.now)/10, m.cfg.AnswerReserve))
}

// requeue makes a sent request wait again, at its place in the order.
func (m *Machine) requeue(r *request) {
	m.unblock(r)
	r.sent = false
	r.shard.waiting++
	m.waiting++
	m.touch(r.shard)
}

func (m *Machine) unblock(r *request) {
	if r.blocks {
		r.blocks = false
		r.shard.blocking--
		m.touch(r.shard)
	}
}

// drop removes an attempt. Its fields can be read until the next one is made.
func (m *Machine) drop(a *attempt) {
	delete(m.attempts, a.id)
	for i, id := range a.r.unanswered {
		if id == a.id {
			a.r.unanswered = append(a.r.unanswered[:i], a.r.unanswered[i+1:]...)
			break
		}
	}
	l := m.links[a.region]
	l.unanswered--
	m.release(l)
	keep(&m.spareAttempts, a)
}

// rearm asks for a home if necessary, and sets the shard's timer. A shard without
// commands is removed unless it has a refused epoch.
func (m *Machine) rearm(s *shard) {
	row, known := m.table.Row(s.id)
	if s.count == 0 && (s.refused == 0 || row.Epoch > s.refused) {
		m.timers.stop(&s.timer)
		if s.known {
			s.known = false
			delete(m.shards, s.id)
			keep(&m.spareShards, s)
		}
		return
	}
	m.ask(s, row, known)
	at := s.askAt
	if s.waiting > 0 && m.now.Before(s.pausedUntil) {
		at = earlier(at, s.pausedUntil)
	}
	if s.waiting > 0 && m.now.Before(s.restsUntil) {
		at = earlier(at, s.restsUntil)
	}
	if s.blocking > 0 {
		at = earlier(at, s.blockedUntil)
	}
	if at.IsZero() {
		m.timers.stop(&s.timer)
		return
	}
	m.timers.set(&s.timer, at)
}

// ask sends GetShardHome while commands wait for a row: at once if there is none or its
// epoch was refused, and after a pause if the coordinator is already moving the shard. It asks the
// owner at the same times, and more often if there is no coordinator.
func (m *Machine) ask(s *shard, row sharding.Row, known bool) {
	if _, ok := m.served(s); ok || s.waiting == 0 {
		s.askAt = time.Time{}
		return
	}
	if s.askAt.IsZero() {
		s.askAt = m.now
		if known && row.Epoch > s.refused {
			s.askAt = m.now.Add(m.cfg.HomeInterval)
		}
	}
	if m.now.Before(s.askAt) {
		return
	}
	m.inquire(row)
	to := m.coordinator()
	if to == "" {
		s.askAt = m.now.Add(m.cfg.HomeInterval / 4) // try again soon
		return
	}
	s.askAt = m.now.Add(m.cfg.HomeInterval)
	m.emit(Send{To: to, Msg: control.GetShardHome{Shard: s.id, Refused: s.refused}})
}

// coordinator returns the address of the active coordinator, empty if none is known.
func (m *Machine) coordinator() string {
	if m.cfg.Fed {
		return m.active
	}
	to, _ := m.watch.Active()
	return to
}

// askSince asks for all homes at once if another coordinator is active than before: no other one has answered, nor will
// the one that was asked last.
func (m *Machine) askSince(before string) {
	if to := m.coordinator(); to == "" || to == before {
		return
	}
	var waiting []*shard
	for _, s := range m.shards { // order-free: they are sorted
		if s.waiting > 0 && m.now.Before(s.askAt) {
			waiting = append(waiting, s)
		}
	}
	slices.SortFunc(waiting, func(a, b *shard) int { return a.id.Compare(b.id) })
	for _, s := range waiting {
		s.askAt = m.now
		m.touch(s)
	}
}

// shardDue gives up blocking requests after their deadline; flushTouched does the rest.
func (m *Machine) shardDue(s *shard) {
	m.timers.stop(&s.timer)
	m.touch(s)
	if s.blocking == 0 || m.now.Before(s.blockedUntil) {
		return
	}
	for r := s.first; r != nil; {
		next := r.next
		if r.blocks {
			m.finish(r, sharding.Doubt(sharding.Unavailable,
				"the shard moved while the command was on its way; it may or may not have been applied"), r.region)
		}
		r = next
	}
}

// earlier returns the earlier of two times; a zero a means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
