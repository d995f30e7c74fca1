package journal

import (
	"math/rand/v2"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Clock returns the two times of a [Moment].
type Clock func() (wall time.Time, elapsed time.Duration)

// SystemClock returns the machine's clock; elapsed counts from the call.
func SystemClock() Clock {
	began := time.Now()
	return func() (time.Time, time.Duration) {
		now := time.Now()
		return now, now.Sub(began) // monotonic
	}
}

// Timekeeper returns the moments of one driver.
type Timekeeper struct {
	writer uint64
	clock  Clock
}

// NewTimekeeper returns a timekeeper with a new writer id.
func NewTimekeeper(c Clock) Timekeeper { return Timekeeper{writer: rand.Uint64() | 1, clock: c} }

// Now returns the current moment.
func (w *Timekeeper) Now() Moment {
	wall, elapsed := w.clock()
	return Moment{Wall: wall, Writer: w.writer, Elapsed: elapsed}
}

// Clock returns the underlying clock.
func (w *Timekeeper) Clock() Clock { return w.clock }

// SetClock replaces the clock, for tests.
func (w *Timekeeper) SetClock(c Clock) { w.clock = c }

// NewGeneration draws a generation.
func NewGeneration() sharding.Generation { return sharding.Generation(rand.Uint64() | 1) }
