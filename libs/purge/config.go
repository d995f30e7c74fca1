package purge

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// Config holds the limits of a purger. The keys belong to the settings for purges.
type Config struct {
	// Rate is the largest number of purges that begin in a second. Default 500: a small part of a
	// disk's group commit. Eight checks of each deleted entity are 5 million entities in a day;
	// with more, each is checked less often, up to 40 million.
	Rate int `key:"rate" unit:"entities/s" range:"1.." help:"the most deleted entities per second that this process checks, or removes from the journal. Further deleted entities wait"`
	// UnderWay is the largest number of purges in progress. Default 32: a small part of a batch.
	UnderWay int `range:"1.."`
	// Interval is the pause between two checks of a shard. Default 1 min: old records may wait, and
	// a check costs a query. After purges a shard is checked again at once, because one purge may
	// not remove all records of a life.
	Interval time.Duration `key:"interval" range:">0" help:"time between two searches of a shard for deleted entities whose records can be removed"`
	// Page is the number of wake-ups of each shard that a read asks for. Default 100.
	Page int `range:"1.."`
	// ReadShards is the number of shards that one read asks about. Default 64.
	ReadShards int `range:"1.."`
	// RetryMin is the pause after a read or a purge that failed: nothing begins then. After a shard
	// whose wake-ups could not be read only that shard pauses. The pause doubles with each failure
	// in a row, up to RetryMax. A random part of it, at most half, is left out. Defaults 5 s and
	// 5 min: no caller waits for a purge.
	RetryMin time.Duration `range:">0"`
	RetryMax time.Duration
	// Seed seeds the random part of the pauses.
	Seed uint64
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{Rate: 500, UnderWay: 32, Interval: time.Minute, Page: 100, ReadShards: 64, RetryMin: 5 * time.Second, RetryMax: 5 * time.Minute}
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	if c.RetryMax < c.RetryMin {
		errs = append(errs, fmt.Errorf("purge: RetryMax is %s, must be at least RetryMin, which is %s", c.RetryMax, c.RetryMin))
	}
	return errors.Join(errs...)
}
