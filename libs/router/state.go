package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the machine between steps. An error is a bug.
func (m *Machine) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("router: "+format, args...)) }
	count, bytes, waiting, live, expects := 0, 0, 0, 0, 0
	var deferred usage
	for _, s := range append(m.sortedShards(), m.unplaced) {
		deferred.commands, deferred.bytes = deferred.commands+s.deferred.commands, deferred.bytes+s.deferred.bytes
		count, bytes, waiting = count+s.count, bytes+s.bytes, waiting+s.waiting
		if err := m.checkShard(s); err != nil {
			bad("shard %s: %w", s.id, err)
		}
		for r := s.first; r != nil; r = r.next {
			live += len(r.unanswered)
			expects += r.expects
			if err := m.checkRequest(s, r); err != nil {
				bad("request %d: %w", r.id, err)
			}
		}
	}
	switch {
	case count != len(m.requests) || bytes != m.bytes || waiting != m.waiting || live != len(m.attempts):
		bad("counts are off: %d of %d requests, %d of %d bytes, %d of %d waiting, %d of %d attempts",
			count, len(m.requests), bytes, m.bytes, waiting, m.waiting, live, len(m.attempts))
	case deferred != m.deferred || !m.cfg.deferredFit(deferred, m.cfg.MaxTotal, int(m.cfg.MaxTotalBytes)):
		bad("%+v of %+v are deferred", m.deferred, deferred)
	case count > m.cfg.MaxTotal || bytes > int(m.cfg.MaxTotalBytes):
		bad("%d commands with %d bytes are above the limits", count, bytes)
	case expects != m.expects || m.held < 0:
		bad("replies of %d of %d bytes are expected, %d are held", expects, m.expects, m.held)
	case m.known() && m.unplaced.count > 0:
		bad("%d commands wait for a table that is there", m.unplaced.count)
	}
	for i, t := range m.timers.list {
		if t.pos != i+1 {
			bad("timer %d thinks it is at %d", i, t.pos-1)
		}
	}
	return errors.Join(append(errs, m.checkLinks(), m.table.Check(), m.watch.Check())...)
}

func (m *Machine) checkShard(s *shard) error {
	count, bytes, waiting, holding := 0, 0, 0, 0
	var deferred usage
	order := uint64(0)
	for r := s.first; r != nil; r = r.next {
		if r.order <= order || r.shard != s {
			return fmt.Errorf("request %d is out of place", r.id)
		}
		order = r.order
		count, bytes = count+1, bytes+r.size
		if !r.sent {
			waiting++
		}
		if r.blocks {
			holding++
		}
		if r.deferred {
			deferred.add(r)
		}
	}
	row, served := m.served(s)
	switch {
	case count != s.count || bytes != s.bytes || waiting != s.waiting || holding != s.blocking:
		return fmt.Errorf("counts are off: %d of %d, %d of %d bytes, %d of %d waiting, %d of %d holding",
			count, s.count, bytes, s.bytes, waiting, s.waiting, holding, s.blocking)
	case deferred != s.deferred || !m.cfg.deferredFit(deferred, m.cfg.MaxWaiting, int(m.cfg.MaxWaitingBytes)):
		return fmt.Errorf("%+v of %+v are deferred", s.deferred, deferred)
	case s == m.unplaced:
		return nil
	case m.shards[s.id] != s || count == 0 && s.refused == 0:
		return errors.New("is not known, or known without reason")
	case count > m.cfg.MaxWaiting || bytes > int(m.cfg.MaxWaitingBytes):
		return fmt.Errorf("%d commands with %d bytes are above the limits", count, bytes)
	case waiting > 0 && !served && s.timer.pos == 0:
		return errors.New("waits for a row without a timer")
	case holding > 0 && s.timer.pos == 0:
		return errors.New("is held without a timer")
	}
	if l := m.links[row.Owner]; served && waiting > 0 && s.timer.pos == 0 && l != nil && l.up {
		return fmt.Errorf("%d commands wait though the way is free", waiting)
	}
	return nil
}

func (m *Machine) checkRequest(s *shard, r *request) error {
	for _, id := range r.unanswered {
		if a := m.attempts[id]; a == nil || a.r != r {
			return fmt.Errorf("attempt %d is not its own", id)
		}
	}
	switch {
	case m.requests[r.id] != r:
		return errors.New("is not known")
	case r.timer.pos == 0 || r.timer.at.After(r.env.Deadline):
		return errors.New("has no timer for its deadline")
	case r.sent && len(r.unanswered) == 0:
		return errors.New("is sent without an attempt")
	case !r.resend && (r.lost || len(r.unanswered) > 1 || !r.sent && len(r.unanswered) > 0):
		return errors.New("must not be sent again, but may have been")
	case r.blocks && (!r.sent || r.resend):
		return errors.New("holds up its shard without reason")
	}
	if row, ok := m.table.Row(s.id); ok && r.sent && !r.blocks && row.Phase == sharding.Serving && r.epoch < row.Epoch {
		return fmt.Errorf("is out at %s though %s serves", r.epoch, row.Epoch)
	}
	return nil
}

func (m *Machine) checkLinks() error {
	rows, live := map[sharding.NodeID]int{}, map[sharding.NodeID]int{}
	for _, row := range m.table.Rows() {
		if !row.Owner.IsZero() {
			rows[row.Owner]++
		}
	}
	for _, a := range m.attempts { // order-free: counts
		live[a.region]++
		if l := m.links[a.region]; l == nil || !l.up || l.number != a.link {
			return fmt.Errorf("router: attempt %d is unanswered on a link that is gone", a.id)
		}
	}
	for _, l := range m.sortedLinks() {
		if l.rows != rows[l.region] || l.unanswered != live[l.region] || l.rows+l.unanswered == 0 || l.up && !l.wanted {
			return fmt.Errorf("router: link to %s counts %d rows and %d attempts, there are %d and %d",
				l.region, l.rows, l.unanswered, rows[l.region], live[l.region])
		}
		delete(rows, l.region)
	}
	if len(rows) > 0 {
		return fmt.Errorf("router: %d owners without a link", len(rows))
	}
	return nil
}

// Clone returns an independent copy of the machine.
func (m *Machine) Clone() *Machine {
	c := *m
	c.table, c.watch = m.table.Clone(), m.watch.Clone()
	c.requests = make(map[RequestID]*request, len(m.requests))
	c.attempts = make(map[Attempt]*attempt, len(m.attempts))
	c.shards = make(map[sharding.ShardID]*shard, len(m.shards))
	c.inquiries = make(map[string]*inquiry, len(m.inquiries))
	for addr, q := range m.inquiries { // order-free: fills a map
		c.inquiries[addr] = &inquiry{slices.Clone(q.shards), q.asked}
	}
	c.links = make(map[sharding.NodeID]*link, len(m.links))
	c.estimates = make(map[kind]*replies.SizeEstimate, len(m.estimates))
	for name, k := range m.estimates { // order-free: fills a map
		copied := *k
		c.estimates[name] = &copied
	}
	c.timers = timerHeap{list: make([]*timer, len(m.timers.list))}
	c.out, c.dirty, c.rests = nil, nil, map[sharding.EntityID]bool{}
	c.spareRequests, c.spareAttempts, c.spareShards = nil, nil, nil
	c.unplaced = c.adopt(m.unplaced)
	for id, s := range m.shards { // order-free: fills a map
		c.shards[id] = c.adopt(s)
	}
	for id, a := range m.attempts { // order-free: fills a map
		copied := *a
		copied.r = c.requests[a.r.id]
		c.attempts[id] = &copied
	}
	for id, l := range m.links { // order-free: fills a map
		copied := *l
		copied.lacks = maps.Clone(l.lacks)
		c.links[id] = &copied
	}
	return &c
}

// adopt copies a shard of another machine with its requests and timers.
func (m *Machine) adopt(from *shard) *shard {
	s := *from
	s.first, s.last = nil, nil
	s.count, s.bytes, s.waiting = 0, 0, 0
	if s.timer.shard != nil {
		s.timer.shard = &s
	}
	m.adoptTimer(&s.timer)
	for r := from.first; r != nil; r = r.next {
		copied := *r
		copied.unanswered = slices.Clone(r.unanswered)
		copied.timer.request = &copied
		m.adoptTimer(&copied.timer)
		s.push(&copied)
		m.requests[r.id] = &copied
	}
	return &s
}

func (m *Machine) adoptTimer(t *timer) {
	if t.pos != 0 {
		m.timers.list[t.pos-1] = t
	}
}

// AppendState appends a canonical description of the state, with times
// relative to now and attempts relative to the newest: states that act
// equally give equal bytes.
func (m *Machine) AppendState(now time.Time, b []byte) []byte {
	rel := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -1
		}
		return max(0, t.Sub(now))
	}
	b = fmt.Appendf(b, "coordinators %q regions %q active %q\n", m.coordinators, m.regions, m.active)
	for _, s := range append(m.sortedShards(), m.unplaced) {
		b = fmt.Appendf(b, "shard %s refused %s ask %d pause %d", s.id, s.refused, rel(s.askAt), rel(s.pausedUntil))
		if s.blocking > 0 {
			b = fmt.Appendf(b, " blocked until %d", rel(s.blockedUntil))
		}
		if s.first != nil && s.departed > s.first.order {
			b = fmt.Appendf(b, " passed -%d", m.order-s.departed)
		}
		b = append(b, '\n')
		for r := s.first; r != nil; r = r.next {
			b = fmt.Appendf(b, "request %d -%d %s %q %d due %d read %t must %t resend %t attempts %d sent %t %s %s lost %t holds %t deferred %t refusals %d rests %d",
				r.id, m.order-r.order, r.env.Entity, r.env.ID, r.env.Hash(),
				rel(r.env.Deadline), r.readOnly, r.mustRead, r.resend, r.attempts, r.sent, r.epoch, r.region, r.lost, r.blocks, r.deferred, r.refusals, rel(r.restsUntil))
			for _, id := range r.unanswered {
				a := m.attempts[id]
				b = fmt.Appendf(b, " [-%d %s %s %d]", m.next-id, a.epoch, a.region, a.link)
			}
			b = append(b, '\n')
		}
	}
	for _, l := range m.sortedLinks() {
		b = fmt.Appendf(b, "link %s wanted %t up %t %d lacks %v\n", l.region, l.wanted, l.up, l.number, l.lacks)
	}
	if m.cfg.Management != "" {
		b = fmt.Appendf(b, "tally %d %d %d %q\n", rel(m.tally.since), m.tally.commands, m.tally.refused, m.tally.latencies.Sketch())
	}
	for _, addr := range slices.Sorted(maps.Keys(m.inquiries)) {
		b = fmt.Appendf(b, "inquiry %q %v asked %t\n", addr, m.inquiries[addr].shards, m.inquiries[addr].asked)
	}
	return m.watch.AppendState(m.table.AppendState(b), now)
}
