package server

import (
	"sync/atomic"
	"time"
)

// rest knows whether something has happened since the last tick; see [region.NewRest].
type rest struct {
	stirred atomic.Bool // something has
	resting atomic.Bool // the next tick comes late
	wake    func()      // makes the loop call [Runner.due] again
}

// stir records that something has happened. It may be called from anywhere.
func (r *rest) stir() {
	if !r.stirred.Load() {
		r.stirred.Store(true)
	}
	if r.resting.Load() && r.resting.CompareAndSwap(true, false) {
		r.wake()
	}
}

// due returns the time before which no tick is needed. Alarms of entities are due in time, and while a command waits for
// room, ticks come often: its connection looks for room with each.
func (s *Runner) due() time.Time {
	s.rest.resting.Store(true) // first: what happens from now on wakes the loop
	due := s.pace.Due()
	if s.rest.stirred.Load() || !due.After(s.ticked) || s.inbox.waits() {
		s.rest.resting.Store(false)
		return time.Time{}
	}
	for _, l := range s.shards {
		if at := time.Unix(0, l.alarmAt.Load()); at.Before(due) {
			due = at
		}
	}
	return due
}
