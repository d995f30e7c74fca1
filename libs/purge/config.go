package purge

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the limits of a purger.
type Config struct {
	// Rate is how many purges begin in a second at most. Default 500: a small part of what a
	// disk commits in a group, and 40 million entities in a day.
	Rate int
	// UnderWay is how many purges may be under way. Default 32: a small part of a batch.
	UnderWay int
	// Interval is the pause between two looks at a shard. Default 1 min: what is old enough may
	// wait, and a look costs a query. Behind purges a shard is looked at again at once, for
	// lives of which one purge does not remove all records.
	Interval time.Duration
	// Page is how many rows of each shard a read asks for. Default 100.
	Page int
	// ReadShards is how many shards one read asks about. Default 64.
	ReadShards int
	// Retry is the pause after a read or a purge that failed. Default 5 s.
	Retry time.Duration
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{Rate: 500, UnderWay: 32, Interval: time.Minute, Page: 100, ReadShards: 64, Retry: 5 * time.Second}
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Rate", int64(c.Rate)}, {"UnderWay", int64(c.UnderWay)}, {"Interval", int64(c.Interval)},
		{"Page", int64(c.Page)}, {"ReadShards", int64(c.ReadShards)}, {"Retry", int64(c.Retry)},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("purge: %s is %d, must be above 0", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}
