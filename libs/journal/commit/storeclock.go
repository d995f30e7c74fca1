package commit

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/storeclock"
)

// storeClock holds the readings of the clock of a database.
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

func (c *storeClock) get() storeclock.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock
}

// StoreClock returns the estimate of the store's clock, of the first database if there are several. Every page of
// wake-ups brings a reading, and so does [Journal.ReadClock].
func (j *Journal) StoreClock() storeclock.Clock { return j.pipelines[0].clock.get() }

// ReadClock reads the clock of the first database.
func (j *Journal) ReadClock(ctx context.Context) error {
	_, err := j.Wakes(ctx, journal.WakesRequest{Limit: 1})
	return err
}

// ClockAhead returns the least offset of the clock of a store from the clock of this machine that its readings show;
// positive: the store's clock is ahead. If there are several databases, it returns the largest offset. known is false if no clock was
// read.
func (j *Journal) ClockAhead() (ahead time.Duration, known bool) {
	for _, pl := range j.pipelines {
		clock := pl.clock.get()
		if !clock.Known() {
			continue
		}
		now := time.Now()
		if d := clock.Ahead(now); !known || d.Abs() > ahead.Abs() {
			ahead = d
		}
		known = true
	}
	return ahead, known
}
