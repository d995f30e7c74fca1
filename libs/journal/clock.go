package journal

import (
	"math/rand/v2"
	"time"
)

// Clock gives the two times of a [Moment].
type Clock func() (wall time.Time, elapsed time.Duration)

// SystemClock is that of the machine; it begins now.
func SystemClock() Clock {
	began := time.Now()
	return func() (time.Time, time.Duration) {
		now := time.Now()
		return now, now.Sub(began) // monotonic
	}
}

// Watch gives the moments of one backend.
type Watch struct {
	by    uint64
	clock Clock
}

// NewWatch makes a watch with a name of its own.
func NewWatch(c Clock) Watch { return Watch{by: rand.Uint64() | 1, clock: c} }

// Now is the moment.
func (w *Watch) Now() Moment {
	wall, elapsed := w.clock()
	return Moment{Wall: wall, By: w.by, Elapsed: elapsed}
}

// Clock is what it reads.
func (w *Watch) Clock() Clock { return w.clock }

// SetClock replaces the clock, for tests.
func (w *Watch) SetClock(c Clock) { w.clock = c }
