package operate

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// Config holds the limits of operators' commands.
type Config struct {
	// Timeout is how long a command is tried if the operator does not say. Default 10 s: longer
	// than most handoffs.
	Timeout time.Duration
	// MaxTimeout is the longest time that an operator may name. Default 50 s: less than the minute
	// that a request may take by default.
	MaxTimeout time.Duration
	// Pause is the time before it is looked again where the entity is: its shard is moving, or its
	// region cannot be reached. Default 100 ms: operators notice less.
	Pause time.Duration
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{Timeout: 10 * time.Second, MaxTimeout: 50 * time.Second, Pause: 100 * time.Millisecond}
}

// TimeoutOf returns how long a command is tried whose operator names a number of milliseconds; 0:
// none.
func (c *Config) TimeoutOf(ms int64) (time.Duration, error) {
	switch most := c.MaxTimeout.Milliseconds(); {
	case ms == 0:
		return c.Timeout, nil
	case ms < 0, ms > most && !mutant.On("operate-timeout"):
		return 0, fmt.Errorf("timeout_ms is %d; choose at most %d, or 0 for %d", ms, most, c.Timeout.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}
