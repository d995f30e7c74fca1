package journal

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/storeclock"
)

// storeClock is what a process knows of the clock of a database.
type storeClock struct {
	mu    sync.Mutex
	clock storeclock.Clock
}

// note notes a reading that was asked for and has just arrived.
func (c *storeClock) note(asked, store time.Time) {
	if store.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock.Read(asked, time.Now(), store)
}

// now returns what the clock says, false if it was never read.
func (c *storeClock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.Now(time.Now()), c.clock.Known()
}

// StoreNow returns the time by the clock of the store, of the first database if there are several; false if it was never read. Every page of
// wake-ups brings that clock, and so does [Journal.ReadClock].
func (j *Journal) StoreNow() (time.Time, bool) { return j.lanes[0].clock.now() }

// ReadClock reads the clock of the first database.
func (j *Journal) ReadClock(ctx context.Context) error {
	_, err := j.Wakes(ctx, WakesRequest{Limit: 1})
	return err
}

// ClockAhead returns how far the clock of a store is ahead of the clock of this machine; negative: it is behind.
// Of several databases it returns the farthest one. It is false if no clock was read.
func (j *Journal) ClockAhead() (ahead time.Duration, known bool) {
	for _, l := range j.lanes {
		now, ok := l.clock.now()
		if !ok {
			continue
		}
		if d := time.Until(now); !known || d.Abs() > ahead.Abs() {
			ahead = d
		}
		known = true
	}
	return ahead, known
}
