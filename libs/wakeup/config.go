package wakeup

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the limits of a [Keeper].
type Config struct {
	// Page is how many wake-ups of a shard are read at a time. Default 128: a busy shard fires as
	// many in a tenth of a second.
	Page int
	// ReadShards is how many shards one read asks for. Default 256: the wake-ups of a region
	// with the usual 1024 shards of a type are read by four queries.
	ReadShards int
	// Reads is how many reads are in progress at a time. Default 1: loads of entities use the
	// same connections.
	Reads int
	// Wakes is how many wake-ups may be in memory. Default 100,000: enough for two thousand
	// firings per second, during Ahead. Each wake-up takes some 300 bytes, plus its input.
	Wakes int
	// FailingWakes is how many of the wake-ups in memory may be failing. Further failing wake-ups are removed
	// from memory, and tried again after the next sweep. Default 10,000: few enough to leave room for
	// wake-ups that do not fail.
	FailingWakes int
	// BlockedWakes is how many of the wake-ups in memory may wait for another firing of their entity.
	// Further waiting wake-ups are removed from memory, and read again when that firing has ended.
	// Default 10,000: few enough to leave room for other entities.
	BlockedWakes int
	// Firings is how many firings of a type are in progress at a time. Default 256: a region
	// that starts with many due wake-ups must serve its callers too.
	Firings int
	// Refresh is the pause between two sweeps of a shard. Default 15 s. A sweep finds changes of
	// which this process does not know, and reads the store's clock.
	Refresh time.Duration
	// Ahead is how far into the future a sweep reads. Default 45 s: above twice Refresh, so
	// that no wake-up is missed if the next sweep is late.
	Ahead time.Duration
	// RetryMin is the pause after the first failure of a firing, or of a read. The pause
	// doubles with each failure in a row, up to RetryMax. A random part of the pause, at most half,
	// is subtracted. Defaults 1 s and 1 min.
	RetryMin, RetryMax time.Duration
	// Seed seeds the random part of the pauses.
	Seed uint64
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{
		Page: 128, ReadShards: 256, Reads: 1, Wakes: 100_000, FailingWakes: 10_000, BlockedWakes: 10_000, Firings: 256,
		Refresh: 15 * time.Second, Ahead: 45 * time.Second, RetryMin: time.Second, RetryMax: time.Minute,
	}
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Page", c.Page}, {"ReadShards", c.ReadShards}, {"Reads", c.Reads}, {"FailingWakes", c.FailingWakes}, {"BlockedWakes", c.BlockedWakes},
		{"Firings", c.Firings},
		{"Refresh", int(c.Refresh)}, {"RetryMin", int(c.RetryMin)},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("wakeup: %s is %d, must be above 0", f.name, f.value))
		}
	}
	if least := c.FailingWakes + c.BlockedWakes + c.Page; c.Wakes < least {
		errs = append(errs, fmt.Errorf("wakeup: Wakes is %d, must be at least %d: FailingWakes, BlockedWakes and one Page", c.Wakes, least))
	}
	if c.Ahead < 2*c.Refresh {
		errs = append(errs, fmt.Errorf("wakeup: Ahead is %s, must be at least twice Refresh, which is %s: else a wake-up could be read when it is late already", c.Ahead, c.Refresh))
	}
	if c.RetryMax < c.RetryMin {
		errs = append(errs, fmt.Errorf("wakeup: RetryMax is %s, must be at least RetryMin, which is %s", c.RetryMax, c.RetryMin))
	}
	return errors.Join(errs...)
}
