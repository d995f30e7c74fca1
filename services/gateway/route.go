package gateway

import (
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// served is the row to send by, if there is one.
func (m *Machine) served(s *shard) (sharding.Row, bool) {
	row, ok := m.table.Row(s.id)
	return row, ok && row.Phase == sharding.Serving && (row.Epoch > s.refused || mutant.On("refused-epoch"))
}

// flush sends what waits, in order of admission, up to the first request that
// holds.
func (m *Machine) flush(s *shard) {
	if s.waiting == 0 || m.now.Before(s.pausedTo) {
		return
	}
	row, ok := m.served(s)
	if !ok {
		return
	}
	l := m.links[row.Owner]
	if l == nil || !l.up {
		return
	}
	backwards := mutant.On("flush-order")
	r := s.first
	if backwards {
		r = s.last
	}
	for r != nil && !r.holds {
		next := r.next
		if backwards {
			next = r.prev
		}
		switch {
		case r.sent:
		case !m.now.Before(r.env.Deadline):
			m.expire(r)
		default:
			m.waiting--
			s.waiting--
			r.sent, r.epoch = true, row.Epoch
			m.send(r, l)
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
	r.live = append(r.live, a.id)
	r.attempts++
	r.region = l.region
	l.live++
	if r.resend {
		r.retryAt = m.now.Add(r.silence)
		m.timers.set(&r.timer, earlier(r.retryAt, r.env.Deadline))
	}
	m.emit(Send{Region: l.region, Link: l.number, Attempt: a.id, Epoch: r.epoch, Shard: r.shard.id, Env: r.env})
}

// wait puts a sent request back to its place.
func (m *Machine) wait(r *request) {
	m.unhold(r)
	r.sent = false
	r.shard.waiting++
	m.waiting++
	m.touch(r.shard)
}

func (m *Machine) unhold(r *request) {
	if r.holds {
		r.holds = false
		r.shard.holding--
		m.touch(r.shard)
	}
}

// drop ends an attempt; what it was can be read until the next one is made.
func (m *Machine) drop(a *attempt) {
	delete(m.attempts, a.id)
	for i, id := range a.r.live {
		if id == a.id {
			a.r.live = append(a.r.live[:i], a.r.live[i+1:]...)
			break
		}
	}
	l := m.links[a.region]
	l.live--
	m.release(l)
	keep(&m.spareAttempts, a)
}

// rearm asks for a home if one is due, and sets the shard's next wake-up. A
// shard without commands is forgotten unless it remembers a refusal.
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
	if s.waiting > 0 && m.now.Before(s.pausedTo) {
		at = earlier(at, s.pausedTo)
	}
	if s.holding > 0 {
		at = earlier(at, s.settleBy)
	}
	if at.IsZero() {
		m.timers.stop(&s.timer)
		return
	}
	m.timers.set(&s.timer, at)
}

// ask sends GetShardHome while commands wait for a row to send by: at once if
// there is none or it was refused, and after a pause if the coordinator has
// the shard in hand already.
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
	to, _ := m.watch.Active()
	if to == "" {
		s.askAt = m.now.Add(m.cfg.HomeInterval / 4) // look again soon
		return
	}
	s.askAt = m.now.Add(m.cfg.HomeInterval)
	m.emit(GetShardHome{To: to, Shard: s.id, Refused: s.refused})
}

// shardDue gives up what held the shard for too long; the rest happens when
// the step settles.
func (m *Machine) shardDue(s *shard) {
	m.timers.stop(&s.timer)
	m.touch(s)
	if s.holding == 0 || m.now.Before(s.settleBy) {
		return
	}
	for r := s.first; r != nil; {
		next := r.next
		if r.holds {
			m.finish(r, sharding.Doubt(sharding.Unavailable,
				"the shard moved while the command was on its way; it may or may not have been applied"), r.region)
		}
		r = next
	}
}

// requestDue expires a request, or sends it again after silence. The earlier
// copy is ahead on the same link, so that nothing is overtaken: the region
// answers the later one from the earlier.
func (m *Machine) requestDue(r *request) {
	if !m.now.Before(r.env.Deadline) {
		m.expire(r)
		return
	}
	m.timers.set(&r.timer, r.env.Deadline)
	row, ok := m.served(r.shard)
	if !r.sent || !r.resend || m.now.Before(r.retryAt) || !ok || row.Epoch != r.epoch {
		return
	}
	if l := m.links[row.Owner]; l != nil && l.up && !m.now.Before(r.shard.pausedTo) {
		r.silence *= 2
		m.send(r, l)
	}
}

// earlier is the earlier of two times of which a may be zero: none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
