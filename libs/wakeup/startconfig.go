package wakeup

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// Strategy sets how fast a [Starter] starts the remembered entities of a shard.
type Strategy string

const (
	// StartAll starts them as fast as possible, StartConfig.Limit at a time. It uses all processors.
	// Until all are started, commands take much longer.
	StartAll Strategy = "all"
	// StartConstant starts StartConfig.Number of them every StartConfig.Frequency.
	StartConstant Strategy = "constant"
)

// StartConfig holds the limits of a [Starter]. The keys belong to the settings for remembered entities.
type StartConfig struct {
	// Strategy is StartConstant by default, so that commands are not slowed down much.
	Strategy Strategy `key:"strategy" help:"how fast remembered entities are started. all: as fast as {.limit} allows. constant: {.number} entities of each type in every {.frequency}. With both strategies, the entities that were active last are started first"`
	// Frequency and Number are used by StartConstant, for each type. Defaults 10 ms and 7: 700
	// entities per second, in groups so small that no command waits long behind a group. A start
	// costs some 0.1 to 0.3 ms of processor time, so starts take at most a fifth of one processor.
	// A driver that steps the Starter more rarely starts several groups together.
	Frequency time.Duration `key:"frequency" range:">0" help:"with the strategy constant, the time between two starts of {.number} remembered entities of a type"`
	Number    int           `key:"number" unit:"entities" range:"1..1000000" help:"with the strategy constant, the number of remembered entities of a type that are started together"`
	// Limit is the largest number of entities of a type that are started at a time, with either
	// strategy. Default 32: a command for one of them waits for few loads, and a start hook that
	// hangs stops only a few others.
	Limit int `key:"limit" unit:"entities" range:"1.." help:"with either strategy, the most remembered entities of a type that are being started at a time; further entities wait. So that commands go first, the starts use at most half of the loads that the journal and the region allow" expert:"true"`
	// Page is the number of wake-ups of a shard that are read at a time. Default 16. It is small
	// because the Starter holds a page of every shard, to find the entity that was active last.
	Page int `range:"1.."`
	// ReadShards is the number of shards that one read asks for. Default 256, as in Config.
	ReadShards int `range:"1.."`
	// Wakes is the largest number of wake-ups in memory. Default 20,000: a page of each of 1,024
	// shards. Each wake-up takes some 150 bytes.
	Wakes int
	// Failing is the largest number of entities that could not be started and are held in memory
	// until the next attempt. Default 10,000. If there are more, their shards are read again later.
	Failing int `range:"1.."`
	// BackOff is the pause after an entity could not be started, or has died. The pause doubles with
	// each failure, up to BackOffMax. From each pause but the first, a random part of up to a half is
	// subtracted. Defaults 10 s and 5 min.
	BackOff    time.Duration `key:"backoff" range:">0" help:"time until the region starts a remembered entity again after the first failure: the entity could not be started, or it has died. The time doubles with each failure" expert:"true"`
	BackOffMax time.Duration `key:"backoff_max" help:"longest time until the region tries again to start a remembered entity that could not be started" expert:"true"`
	// ReadRetry is the pause after a read has failed. It is also the pause after the limits have left
	// no room for an entity. Default 1 s.
	ReadRetry time.Duration `range:">0"`
	// Seed seeds the random part of the pauses.
	Seed uint64
}

// DefaultStartConfig returns the defaults that the fields' comments name.
func DefaultStartConfig() StartConfig {
	return StartConfig{
		Strategy: StartConstant, Frequency: 10 * time.Millisecond, Number: 7, Limit: 32, Page: 16, ReadShards: 256, Wakes: 20_000,
		Failing: 10_000, BackOff: 10 * time.Second, BackOffMax: 5 * time.Minute, ReadRetry: time.Second,
	}
}

// Validate returns an error that names every field with an unusable value.
func (c *StartConfig) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if c.Strategy != StartAll && c.Strategy != StartConstant {
		bad("strategy", "is %q, must be %s or %s", c.Strategy, StartAll, StartConstant)
	}
	if c.Wakes < c.Page {
		errs = append(errs, fmt.Errorf("wakeup: Wakes is %d, must be at least Page, which is %d", c.Wakes, c.Page))
	}
	if c.BackOffMax < c.BackOff {
		bad("backoff_max", "is %s, must be at least %s (%s)", c.BackOffMax, setting.Key("backoff"), c.BackOff)
	}
	return errors.Join(errs...)
}
