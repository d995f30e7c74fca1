// Package clock reads the clock of the machine for the backends of a journal, and draws random numbers for them.
package clock

import (
	"math/rand/v2"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// System returns the machine's clock; elapsed counts from the call.
func System() journal.Clock {
	began := time.Now()
	return func() (time.Time, time.Duration) {
		now := time.Now()
		return now, now.Sub(began) // monotonic
	}
}

// Timekeeper returns the moments of one backend.
type Timekeeper struct {
	writer uint64
	clock  journal.Clock
}

// NewTimekeeper returns a timekeeper with a new writer id.
func NewTimekeeper(c journal.Clock) Timekeeper {
	return Timekeeper{writer: rand.Uint64() | 1, clock: c}
}

// Now returns the current moment.
func (w *Timekeeper) Now() journal.Moment {
	wall, elapsed := w.clock()
	return journal.Moment{Wall: wall, Writer: w.writer, Elapsed: elapsed}
}

// Clock returns the underlying clock.
func (w *Timekeeper) Clock() journal.Clock { return w.clock }

// SetClock replaces the clock, for tests.
func (w *Timekeeper) SetClock(c journal.Clock) { w.clock = c }

// NewGeneration draws a generation.
func NewGeneration() sharding.Generation { return sharding.Generation(rand.Uint64() | 1) }
