package gateway

import (
	"time"

	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// shedShare: after the region has refused a command, others are shed for this
	// fraction (1/16) of the time that the last answered command waited for its
	// entity. That is too short for the entity to run out of work.
	shedShare = 16
	// shedMemory is the time that an entity is remembered after the last refusal.
	shedMemory = time.Second
)

// Shedder decides which commands a gateway refuses before it reads their body: those for
// entities whose regions refuse commands for lack of room. Under overload this costs a
// fraction of sending each command to the region.
//
// It is separate from the router, because a command whose body is not read yet cannot be
// submitted. It is not safe for concurrent use; a driver with many connections must lock
// it.
//
// Invariant: a gateway may refuse a command whose body it has not read. It does so only if the region has just refused
// another command for the same entity, and that other command had at least as much time left.
// Guarded by: `gateway.Shedder`.
type Shedder struct {
	limit    int
	entities map[sharding.Entity]shedding
}

// shedding is an entity with a command that a region refused.
type shedding struct {
	refused time.Time     // time of the newest refusal
	left    time.Duration // remaining time of that command
	wait    time.Duration // how long the newest answered command waited for its turn
	until   time.Time     // commands with no more time than left are shed before
}

// NewShedder returns a Shedder that remembers at most limit entities. For others the
// regions refuse every command themselves.
func NewShedder(limit int) *Shedder {
	return &Shedder{limit: limit, entities: map[sharding.Entity]shedding{}}
}

// Empty reports whether no entity is remembered: then nothing is shed.
func (s *Shedder) Empty() bool { return len(s.entities) == 0 }

// Sheds reports whether a command with this remaining time must be refused.
func (s *Shedder) Sheds(e sharding.Entity, left time.Duration, now time.Time) bool {
	x, ok := s.entities[e]
	return ok && left <= x.left && now.Before(x.until)
}

// Shed returns the end of a shed command, at a gateway with this router.
func Shed(c *router.Config) router.Finish {
	return router.Finish{
		Reply:      sharding.Reject(sharding.ResourceExhausted, "too many commands wait for this entity"),
		RetryAfter: int(c.RetryHint / time.Millisecond),
	}
}

// Observe records the result of a command; left was its remaining time on arrival.
func (s *Shedder) Observe(e sharding.Entity, left time.Duration, f *router.Finish, now time.Time) {
	x, known := s.entities[e]
	switch {
	case f.Reply.Outcome == sharding.Executed:
		if !known {
			return
		}
		x.wait = f.Reply.Timing.Mailbox
	case f.Reply.Outcome == sharding.NotApplied && f.Reply.Code == sharding.ResourceExhausted && f.Region.Addr != "":
		if !known && len(s.entities) >= s.limit {
			return
		}
		if now.Before(x.until) {
			left = max(left, x.left)
		}
		x.refused, x.left, x.until = now, left, now.Add(x.wait/shedShare)
	default:
		return
	}
	s.entities[e] = x
}

// Drop removes entities whose regions have had room for a while.
func (s *Shedder) Drop(now time.Time) {
	for e, x := range s.entities { // order-free: each for itself
		if now.Sub(x.refused) > shedMemory {
			delete(s.entities, e)
		}
	}
}
