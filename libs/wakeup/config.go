package wakeup

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// Config holds the limits of a [Keeper]. The keys belong to the settings for reminders.
type Config struct {
	// Page is the number of wake-ups of a shard that are read at a time. Default 128: a busy shard
	// fires as many in a tenth of a second.
	Page int `range:"1.."`
	// ReadShards is the number of shards that one read asks for. Default 256: the wake-ups of a
	// region with the usual 1024 shards of a type are read by four queries.
	ReadShards int `range:"1.."`
	// Wakes is the largest number of wake-ups in memory. Default 100,000: enough for two thousand
	// firings per second, during Ahead. Each wake-up takes some 300 bytes, plus its input.
	Wakes int `key:"held" unit:"reminders" help:"the most reminders in memory. The region holds a reminder in memory if the reminder is due soon, or if its command has failed. Each takes some 300 bytes, plus the input of its command. The region reads further reminders from the journal later"`
	// FailingWakes is the largest number of failing wake-ups in memory. Further failing wake-ups are removed
	// from memory, and tried again after the next sweep. BlockedWakes is the largest number of wake-ups in memory that
	// wait for another firing of their entity. Further waiting wake-ups are removed from memory, and read again when
	// that firing has ended. 0: a tenth of Wakes each, so that most of the room is for other wake-ups.
	FailingWakes int `range:"0.."`
	BlockedWakes int `range:"0.."`
	// Firings is the largest number of firings of a type in progress at a time. Default 256: a
	// region that starts with many due wake-ups must serve its callers too.
	Firings int `key:"firings" unit:"reminders" range:"1.." help:"the most reminders of a type whose commands run at a time; further reminders wait"`
	// Refresh is the pause between two sweeps of a shard. Default 15 s. A sweep finds changes that
	// this process does not know, and reads the store's clock.
	Refresh time.Duration `key:"refresh" range:">0" help:"time between two reads of the reminders that are due soon. With each read, the region also reads the clock of the journal's store"`
	// Ahead is the distance into the future that a sweep reads. 0: three times Refresh, so that no wake-up is missed
	// if the next sweep is late.
	Ahead time.Duration `range:"0.."`
	// RetryMin is the pause after the first failure of a firing, or of a read. The pause
	// doubles with each failure in a row, up to RetryMax. A random part of the pause, at most half,
	// is subtracted. Defaults 1 s and 1 min.
	RetryMin time.Duration `key:"retry_min" range:">0" help:"time until a reminder fires again after the first failure of its command. The time doubles with each failure"`
	RetryMax time.Duration `key:"retry_max" help:"longest time until a reminder whose command has failed fires again"`
	// Seed seeds the random part of the pauses.
	Seed uint64
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{
		Page: 128, ReadShards: 256, Wakes: 100_000, Firings: 256,
		Refresh: 15 * time.Second, RetryMin: time.Second, RetryMax: time.Minute,
	}
}

// Derived returns the configuration with the values of the fields that are 0 because they follow from others.
func (c Config) Derived() Config {
	c.FailingWakes = cmp.Or(c.FailingWakes, max(1, c.Wakes/10))
	c.BlockedWakes = cmp.Or(c.BlockedWakes, max(1, c.Wakes/10))
	c.Ahead = cmp.Or(c.Ahead, 3*c.Refresh)
	return c
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	d := c.Derived()
	if least := d.FailingWakes + d.BlockedWakes + d.Page; c.Wakes < least {
		bad("held", "is %d, must be at least %d", c.Wakes, least)
	}
	if d.Ahead < 2*d.Refresh {
		errs = append(errs, fmt.Errorf("wakeup: Ahead is %s, must be at least twice Refresh, which is %s: else a wake-up could be read when it is late already", d.Ahead, d.Refresh))
	}
	if c.RetryMax < c.RetryMin {
		bad("retry_max", "is %s, must be at least %s (%s)", c.RetryMax, setting.Key("retry_min"), c.RetryMin)
	}
	return errors.Join(errs...)
}
