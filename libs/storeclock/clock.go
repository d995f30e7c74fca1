// Package storeclock keeps what a process knows of the clock of a journal's store.
//
// A reading of that clock is old when it arrives: a page may wait for a slow database, and its process may be paused
// meanwhile. An estimate that starts from an old reading is late by its age. So a slow reading does not replace the estimate
// from an earlier one, unless it contradicts that estimate, because the store's clock was set.
package storeclock

import (
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// drift is the part of an elapsed time by which the monotonic clock of a process may run faster or slower than that of
// the store, in percent. It is that of the fault model.
const drift = 10

// Clock is the clock of a store, as the readings so far show it. It is never ahead of the store's clock by more than
// the drift since the last reading. The zero Clock has no reading.
type Clock struct {
	store time.Time
	at    time.Time // when the clock of the store showed store, or a later time, by the clock of this process
}

// Read takes in a reading of the store's clock that was asked for at one time and has arrived at another.
func (c *Clock) Read(asked, arrived, store time.Time) {
	if c.Known() {
		elapsed := arrived.Sub(c.at)
		least := c.store.Add(elapsed - elapsed*drift/100)
		// The store was asked between the two times, so its clock cannot show more now.
		if least.After(store) && !least.After(store.Add(arrived.Sub(asked))) && !mutant.On("late-reading") {
			store = least
		}
	}
	c.store, c.at = store, arrived
}

// Known reports whether there was a reading.
func (c *Clock) Known() bool { return !c.at.IsZero() }

// Now returns what the clock of the store says at a time of this process. Before the first reading, it is that time itself.
func (c *Clock) Now(now time.Time) time.Time {
	if !c.Known() {
		return now
	}
	return c.store.Add(now.Sub(c.at))
}

// When returns the time of this process at which the clock of the store will say store.
func (c *Clock) When(store time.Time) time.Time {
	if !c.Known() {
		return store
	}
	return c.at.Add(store.Sub(c.store))
}

// Last returns what the clock of the store said at the last reading, and when this arrived.
func (c *Clock) Last() (store, at time.Time) { return c.store, c.at }

// Ahead returns by how much the clock of the store is ahead of that of this process; negative: it is behind.
func (c *Clock) Ahead() time.Duration { return c.store.Sub(c.at) }
