// Package pace decides when a core that runs by ticks gets the next one.
//
// Each tick wakes a process up, and that is most of the cost of an idle process. So an idle core gets few
// ticks. They come when its process wakes up anyway.
package pace

import "time"

// Rest decides when a core gets its next tick: soon while something happens, and later after nothing has happened
// for a while. The package of the core defines what counts.
type Rest struct {
	// Every is the time between two ticks of a core at rest.
	Every time.Duration
	// After is the time that nothing must have happened.
	After time.Duration

	ticked, stirred time.Time
}

// Stir notes that something happens at a time, or since the tick before that time.
func (r *Rest) Stir(now time.Time) { r.stirred = now }

// Tick notes that the core gets a tick.
func (r *Rest) Tick(now time.Time) { r.ticked = now }

// Due returns the time before which no tick is needed, unless something happens. While something happens, it has passed.
func (r *Rest) Due() time.Time {
	if r.ticked.Sub(r.stirred) < r.After {
		return r.ticked
	}
	return NextAligned(r.ticked, r.Every)
}

// NextAligned returns the first multiple of a period, in the time of the wall clock, that is at least half a period from
// now. What is done then, in this process and in others as far as their clocks agree, is done at the same moments, so that
// an idle process wakes up for all of it at once.
func NextAligned(now time.Time, period time.Duration) time.Time {
	wait := period - now.Sub(now.Truncate(period))
	if wait < period/2 {
		wait += period
	}
	return now.Add(wait)
}
