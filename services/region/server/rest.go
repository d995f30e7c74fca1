package server

import (
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
)

// A region in which nothing happens is told the time more rarely: each tick wakes two goroutines, and
// that is most of what the cores of an idle region cost.

const (
	// restEvery is the time between two ticks while nothing happens, no alarm of an entity is due and no command waits
	// for room. Such ticks come
	// at the moments of the heartbeats of members, for which the process wakes up anyway.
	restEvery = 200 * time.Millisecond
	// restAfter is how long nothing must have happened. It is longer than a turn counts as a possible cause of
	// a crash after its end: ticks note that the process lives.
	restAfter = 60 * time.Millisecond
)

// rest knows whether something has happened since the last tick.
type rest struct {
	stirred atomic.Bool // something has
	resting atomic.Bool // the next tick comes late
	wake    func()      // makes [Runner.due] be asked again
}

// stir says that something has happened. It may be called from anywhere.
func (r *rest) stir() {
	if !r.stirred.Load() {
		r.stirred.Store(true)
	}
	if r.resting.Load() && r.resting.CompareAndSwap(true, false) {
		r.wake()
	}
}

// due returns the time before which no tick is needed.
func (s *Runner) due() time.Time {
	s.rest.resting.Store(true) // first: what happens from now on wakes the loop
	if s.rest.stirred.Load() || s.ticked.Sub(s.stirredAt) < restAfter || s.inbox.waits() {
		s.rest.resting.Store(false)
		return time.Time{}
	}
	due := gossip.NextAligned(s.ticked, restEvery)
	for _, l := range s.shards {
		if at := time.Unix(0, l.alarmAt.Load()); at.Before(due) {
			due = at
		}
	}
	return due
}
