package wakeup

import (
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// Config holds the limits of a [Keeper]. The keys belong to the settings for reminders.
type Config struct {
	// Page is the number of wake-ups of a shard that are read at a time. Default 128: a busy shard
	// fires as many in a tenth of a second.
	Page int `key:"page" unit:"reminders" range:"1.." help:"number of reminders of a shard that the region reads from the journal at a time"`
	// ReadShards is the number of shards that one read asks for. Default 256: the wake-ups of a
	// region with the usual 1024 shards of a type are read by four queries.
	ReadShards int `range:"1.."`
	// Wakes is the largest number of wake-ups in memory. Default 100,000: enough for two thousand
	// firings per second, during Ahead. Each wake-up takes some 300 bytes, plus its input.
	Wakes int `key:"held" unit:"reminders" help:"the most reminders in memory. The region holds a reminder in memory if the reminder is due soon, or if its command has failed. Each takes some 300 bytes, plus the input of its command. The region reads further reminders from the journal later"`
	// FailingWakes is the largest number of failing wake-ups in memory. Further failing wake-ups are removed
	// from memory, and tried again after the next sweep. Default 10,000: few enough to leave room for
	// wake-ups that do not fail.
	FailingWakes int `key:"failing" unit:"reminders" range:"1.." help:"the most reminders in memory whose command has failed. The region reads further ones from the journal again after {.refresh}"`
	// BlockedWakes is the largest number of wake-ups in memory that wait for another firing of their
	// entity. Further waiting wake-ups are removed from memory, and read again when that firing has
	// ended. Default 10,000: few enough to leave room for other entities.
	BlockedWakes int `key:"blocked" unit:"reminders" range:"1.." help:"the most due reminders in memory that wait because another reminder of the same entity is firing. The region reads further ones from the journal again when that firing has ended"`
	// Firings is the largest number of firings of a type in progress at a time. Default 256: a
	// region that starts with many due wake-ups must serve its callers too.
	Firings int `key:"firings" unit:"reminders" range:"1.." help:"the most reminders of a type whose commands run at a time; further reminders wait"`
	// Refresh is the pause between two sweeps of a shard. Default 15 s. A sweep finds changes that
	// this process does not know, and reads the store's clock.
	Refresh time.Duration `key:"refresh" range:">0" help:"time between two reads of the reminders that are due soon. With each read, the region also reads the clock of the journal's store"`
	// Ahead is the distance into the future that a sweep reads. Default 45 s: above twice Refresh,
	// so that no wake-up is missed if the next sweep is late.
	Ahead time.Duration `key:"ahead" help:"how long before its due time the region reads a reminder from the journal. At least twice {.refresh}"`
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
		Page: 128, ReadShards: 256, Wakes: 100_000, FailingWakes: 10_000, BlockedWakes: 10_000, Firings: 256,
		Refresh: 15 * time.Second, Ahead: 45 * time.Second, RetryMin: time.Second, RetryMax: time.Minute,
	}
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if least := c.FailingWakes + c.BlockedWakes + c.Page; c.Wakes < least {
		bad("held", "is %d, must be at least %d: %s, %s and one %s", c.Wakes, least, setting.Key("failing"), setting.Key("blocked"), setting.Key("page"))
	}
	if c.Ahead < 2*c.Refresh {
		bad("ahead", "is %s, must be at least twice %s (%s): else a reminder could be read when it is late already", c.Ahead, setting.Key("refresh"), c.Refresh)
	}
	if c.RetryMax < c.RetryMin {
		bad("retry_max", "is %s, must be at least %s (%s)", c.RetryMax, setting.Key("retry_min"), c.RetryMin)
	}
	return errors.Join(errs...)
}
