package operate

import (
	"fmt"
	"time"
)

// Config holds the limits of operators' commands.
type Config struct {
	// Timeout is the time that a command is tried if the operator names none. Default 10 s: most
	// handoffs take less.
	Timeout time.Duration
	// MaxTimeout is the longest time that an operator may name. Default 50 s: by default, a request
	// may take a minute.
	MaxTimeout time.Duration
	// Pause is the time between two searches for the region of an entity. Another search is needed
	// if the shard of the entity is moving, or if its region cannot be reached. Default 100 ms:
	// operators do not notice such a pause.
	Pause time.Duration
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{Timeout: 10 * time.Second, MaxTimeout: 50 * time.Second, Pause: 100 * time.Millisecond}
}

// TimeoutOf returns how long a command is tried if its operator names ms milliseconds. If ms is 0,
// the operator has named no time.
func (c *Config) TimeoutOf(ms int64) (time.Duration, error) {
	switch most := c.MaxTimeout.Milliseconds(); {
	case ms == 0:
		return c.Timeout, nil
	case ms < 0, ms > most: //mutant:false operate-timeout ms > most
		return 0, fmt.Errorf("timeout_ms is %d; choose at most %d, or 0 for %d", ms, most, c.Timeout.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}
