// Package storeclock keeps what a process knows of the clock of a journal's store.
//
// A reading of that clock is old when it arrives: a page may wait for a slow database, and its process may be paused
// meanwhile. The reading proves only that the store's clock is now between the reading and the reading plus the time that it
// took. So a slow reading does not replace what faster readings have shown; it corrects only what contradicts it, for example
// because the store's clock was set.
package storeclock

import (
	"fmt"
	"time"
)

// Clock has an earliest and a latest time by the clock of a store, as the readings so far show it. Between two readings, both
// run with the clock of this process, so they are wrong by how far the two have drifted apart since the last reading. If
// the store's clock is set, they are also wrong by at most the time that the next reading takes.
//
// Due times are compared with the earliest time, so that nothing is early. Delays count from the latest time, for the same
// reason. The zero Clock has no reading.
type Clock struct {
	store time.Time     // the earliest time when the last reading arrived
	slack time.Duration // by how much the latest time is later
	at    time.Time     // when the last reading arrived, by the clock of this process
}

// Read takes in a reading of the store's clock that was asked for at one time and has arrived at another.
func (c *Clock) Read(asked, arrived, store time.Time) {
	store = store.Round(0) // without the monotonic part: wall clocks are compared
	earliest, latest := store, store.Add(max(0, arrived.Sub(asked)))
	if c.Known() { //mutant:false late-reading
		within := func(t time.Time) time.Time {
			switch {
			case t.Before(earliest):
				return earliest
			case t.After(latest):
				return latest
			}
			return t
		}
		earliest, latest = within(c.Now(arrived)), within(c.Latest(arrived))
	}
	c.store, c.slack, c.at = earliest, latest.Sub(earliest), arrived
}

// Known reports whether there was a reading.
func (c *Clock) Known() bool { return !c.at.IsZero() }

// Now returns the earliest time by the clock of the store at a time of this process. Before the first reading, it is that
// time itself.
func (c *Clock) Now(now time.Time) time.Time {
	if !c.Known() {
		return now
	}
	return c.store.Add(now.Sub(c.at))
}

// Latest returns the latest time by the clock of the store at a time of this process, as Now returns the earliest one.
func (c *Clock) Latest(now time.Time) time.Time { return c.Now(now).Add(c.slack) }

// Ahead returns the least offset of the store's clock from a clock that shows now; positive: the store's clock is ahead.
// It is 0 if the readings do not tell the two clocks apart: a slow reading alone does not show an offset.
func (c *Clock) Ahead(now time.Time) time.Duration {
	return max(c.Now(now).Sub(now), min(0, c.Latest(now).Sub(now)))
}

// When returns the time of this process at which Now will return store.
func (c *Clock) When(store time.Time) time.Time {
	if !c.Known() {
		return store
	}
	return c.at.Add(store.Sub(c.store))
}

// AppendState appends a canonical description of the clock: equal clocks give equal bytes, whenever they were read.
func (c *Clock) AppendState(b []byte) []byte {
	return fmt.Appendf(b, "clock %t %d slack %d", c.Known(), c.store.Sub(c.at).Milliseconds(), c.slack.Milliseconds())
}
