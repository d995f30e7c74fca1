package wakeup

import (
	"errors"
	"fmt"
	"time"
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

// MaxStartNumber bounds StartConfig.Number. It is more than a region starts in any Frequency, and so small that the
// groups of one step cannot overflow a count.
const MaxStartNumber = 1_000_000

// StartConfig holds the limits of a [Starter].
type StartConfig struct {
	// Strategy is StartConstant by default, so that commands are not slowed down much.
	Strategy Strategy
	// Frequency and Number are used by StartConstant, for each type. Defaults 10 ms and 7: 700
	// entities per second, in groups so small that no command waits long behind a group. A start
	// costs some 0.1 to 0.3 ms of processor time, so starts take at most a fifth of one processor.
	// A driver that steps the Starter more rarely starts several groups together.
	Frequency time.Duration
	Number    int
	// Limit is the maximum number of concurrent starts of entities of a type, with either strategy.
	// Default 32: a command for one of them waits for few loads, and a start hook that hangs stops
	// only a few others.
	Limit int
	// Page is the number of wake-ups that one read returns for a shard. Default 16. It is small
	// because the Starter holds a page of every shard, to find the entity that was active last.
	Page int
	// ReadShards is the number of shards per read. Default 256, as in Config.
	ReadShards int
	// Wakes is the maximum number of wake-ups in memory. Default 20,000: a page of each of 1,024
	// shards. Each wake-up takes some 150 bytes.
	Wakes int
	// Failing is the maximum number of entities in memory that could not be started and wait for a
	// retry. Default 10,000. If there are more, their shards are read again later.
	Failing int
	// BackOff is the pause after an entity could not be started, or has died. The pause doubles with
	// each failure, up to BackOffMax. From each pause but the first, a random part of up to a half is
	// subtracted. Defaults 10 s and 5 min.
	BackOff, BackOffMax time.Duration
	// ReadRetry is the pause after a read has failed. It is also the pause after the limits have left
	// no room for an entity. Default 1 s.
	ReadRetry time.Duration
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
	var errs []error
	if c.Strategy != StartAll && c.Strategy != StartConstant {
		errs = append(errs, fmt.Errorf("wakeup: StartConfig.Strategy is %q, must be %s or %s", c.Strategy, StartAll, StartConstant))
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Number", c.Number}, {"Limit", c.Limit}, {"Page", c.Page}, {"ReadShards", c.ReadShards}, {"Failing", c.Failing},
		{"Frequency", int(c.Frequency)}, {"BackOff", int(c.BackOff)}, {"ReadRetry", int(c.ReadRetry)},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("wakeup: StartConfig.%s is %d, must be above 0", f.name, f.value))
		}
	}
	if c.Number > MaxStartNumber {
		errs = append(errs, fmt.Errorf("wakeup: StartConfig.Number is %d, must be at most %d", c.Number, MaxStartNumber))
	}
	if c.Wakes < c.Page {
		errs = append(errs, fmt.Errorf("wakeup: StartConfig.Wakes is %d, must be at least Page, which is %d", c.Wakes, c.Page))
	}
	if c.BackOffMax < c.BackOff {
		errs = append(errs, fmt.Errorf("wakeup: StartConfig.BackOffMax is %s, must be at least BackOff, which is %s", c.BackOffMax, c.BackOff))
	}
	return errors.Join(errs...)
}
