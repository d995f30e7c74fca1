package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

const (
	// pressShare is the share of what a command waits for its entity, as the
	// last answer tells, for which commands are refused here after the region
	// has refused one. So little of what waits is done meanwhile that the entity
	// does not run out of work.
	pressShare = 16
	// pressTime is how long an entity is remembered after the last refusal.
	pressTime = time.Second
)

var errPressed = sharding.Reject(sharding.ResourceExhausted, "too many commands wait for this entity")

// press remembers entities for which regions refuse commands for lack of room.
// While many are sent all the same, most of them are refused before their body
// is read, at a fraction of the price of asking the region each time.
type press struct {
	limit int         // of entities; of others the regions refuse every command themselves
	some  atomic.Bool // there are entities

	mu       sync.RWMutex
	entities map[sharding.Entity]pressed
}

// pressed is an entity for which a region has refused a command.
type pressed struct {
	refused time.Time     // the newest
	left    time.Duration // the time that it had
	wait    time.Duration // of the newest answered command for its turn
	until   time.Time     // nothing with no more time than left is taken before
}

// refuses tells whether a command that has so much time is not worth asking for.
func (p *press) refuses(e sharding.Entity, left time.Duration, now time.Time) bool {
	if !p.some.Load() {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	x, ok := p.entities[e]
	return ok && left <= x.left && now.Before(x.until)
}

// refused takes in that a region had no room for a command that had so much
// time.
func (p *press) refused(e sharding.Entity, left time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, known := p.entities[e]
	if !known && len(p.entities) >= p.limit {
		return
	}
	if now.Before(x.until) {
		left = max(left, x.left)
	}
	x.refused, x.left, x.until = now, left, now.Add(x.wait/pressShare)
	p.entities[e] = x
	p.some.Store(true)
}

// answered takes in how long a command waited for its turn.
func (p *press) answered(e sharding.Entity, wait time.Duration) {
	if !p.some.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x, known := p.entities[e]; known {
		x.wait = wait
		p.entities[e] = x
	}
}

// forget drops entities whose regions have had room for a while.
func (p *press) forget(now time.Time) {
	if !p.some.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for e, x := range p.entities { // order-free: each for itself
		if now.Sub(x.refused) > pressTime {
			delete(p.entities, e)
		}
	}
	p.some.Store(len(p.entities) > 0)
}

// pressed refuses a command at once that its region would refuse. timeout is
// the client's, 0 if it named none.
func (s *Server) pressed(c *call, timeout time.Duration) *failure {
	if timeout <= 0 {
		timeout = s.cfg.Timeout
	}
	if !s.press.refuses(c.env.Entity, min(timeout, s.cfg.MaxTimeout), c.arrived) {
		return nil
	}
	return failureOf(&gateway.Finish{Reply: errPressed, RetryAfter: s.retryHint})
}

// learn tells press what became of a command.
func (s *Server) learn(c *call, f *gateway.Finish) {
	switch {
	case f.Reply.Outcome == sharding.OK:
		s.press.answered(c.env.Entity, f.Reply.Timing.Mailbox)
	case f.Reply.Outcome == sharding.Rejected && f.Reply.Code == sharding.ResourceExhausted && f.Region.Addr != "":
		left := s.cfg.Timeout
		if !c.env.Deadline.IsZero() {
			left = c.env.Deadline.Sub(c.arrived)
		}
		s.press.refused(c.env.Entity, left, time.Now())
	}
}
