package gateway

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// shedShare is the share of what a command waits for its entity, as the
	// last answer tells, for which commands are shed after the region has refused
	// one. So little of what waits is done meanwhile that the entity does not run
	// out of work.
	shedShare = 16
	// shedMemory is how long an entity is remembered after the last refusal.
	shedMemory = time.Second
)

// Shedder decides which commands a gateway refuses before it reads their body:
// those for entities for which regions refuse commands for lack of room. While many
// are sent all the same, that costs a fraction of asking the region each time.
//
// It stands before the [Machine], because a command that is not read yet is not
// there to be submitted. It is not safe for concurrent use; a driver in which many
// connections ask locks it.
type Shedder struct {
	limit    int
	entities map[sharding.Entity]shedding
}

// shedding is an entity for which a region has refused a command.
type shedding struct {
	refused time.Time     // the newest
	left    time.Duration // the time that it had
	wait    time.Duration // of the newest answered command for its turn
	until   time.Time     // nothing with no more time than left is taken before
}

// NewShedder remembers at most limit entities; of others the regions refuse every
// command themselves.
func NewShedder(limit int) *Shedder {
	return &Shedder{limit: limit, entities: map[sharding.Entity]shedding{}}
}

// Empty reports whether no entity is remembered: then nothing is shed.
func (s *Shedder) Empty() bool { return len(s.entities) == 0 }

// Sheds reports whether a command that has so much time left is refused.
func (s *Shedder) Sheds(e sharding.Entity, left time.Duration, now time.Time) bool {
	x, ok := s.entities[e]
	return ok && left <= x.left && now.Before(x.until)
}

// Shed is what the client of a shed command is told.
func (c Config) Shed() Finish {
	return Finish{
		Reply:      sharding.Reject(sharding.ResourceExhausted, "too many commands wait for this entity"),
		RetryAfter: int(c.RetryHint / time.Millisecond),
	}
}

// Observe takes in what became of a command that had so much time when it came.
func (s *Shedder) Observe(e sharding.Entity, left time.Duration, f *Finish, now time.Time) {
	x, known := s.entities[e]
	switch {
	case f.Reply.Outcome == sharding.OK:
		if !known {
			return
		}
		x.wait = f.Reply.Timing.Mailbox
	case f.Reply.Outcome == sharding.Rejected && f.Reply.Code == sharding.ResourceExhausted && f.Region.Addr != "":
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

// Forget drops entities whose regions have had room for a while.
func (s *Shedder) Forget(now time.Time) {
	for e, x := range s.entities { // order-free: each for itself
		if now.Sub(x.refused) > shedMemory {
			delete(s.entities, e)
		}
	}
}
