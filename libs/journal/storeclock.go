package journal

import (
	"context"
	"sync/atomic"
	"time"
)

// storeClock is what a process knows of the clock of a database: the newest reading, and the time that has
// passed since by the monotonic clock of the process.
type storeClock struct{ newest atomic.Pointer[storeTime] }

type storeTime struct{ store, read time.Time }

// note notes a reading that has just arrived. The clock may be ahead of the estimate by as much as the reading took.
func (c *storeClock) note(store time.Time) {
	if !store.IsZero() {
		c.newest.Store(&storeTime{store, time.Now()})
	}
}

// now returns the estimate, false if the clock was never read.
func (c *storeClock) now() (time.Time, bool) {
	t := c.newest.Load()
	if t == nil {
		return time.Time{}, false
	}
	return t.store.Add(time.Since(t.read)), true
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
