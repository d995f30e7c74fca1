package journal

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the limits of a journal.
type Config struct {
	// DedupeAge is how long the id of a command is kept at least, in the entity's
	// own time (see [Stamp.Next]), which never goes faster than clocks do.
	// Default 24 h: longer than a client that retries over night.
	DedupeAge time.Duration
	// DedupeCount is how many of an entity's newest command ids are kept,
	// however old. Default 100,000: a busy entity's day.
	DedupeCount int
	// BatchOps is the largest number of operations in one transaction.
	// Default 1024: beyond that the price of the commit no longer matters.
	BatchOps int
	// BatchBytes is the approximate largest size of one transaction; a larger
	// operation is committed alone. Default 4 MiB: some ten milliseconds of disk.
	BatchBytes int
	// QueueOps is how many operations may wait for the next batch; further ones are
	// refused as full. Default 65,536.
	QueueOps int
	// QueueBytes is how many bytes those operations may have. Default 64 MiB.
	QueueBytes int
	// OpBytes is the largest single operation; a larger one is refused permanently
	// (sharding.RefusedTooLarge). Default 16 MiB: more than any snapshot should have.
	OpBytes int
	// PageBytes is about how many bytes of records a page of wake-ups or sends reads, however
	// many rows were asked for. Default 8 MiB: a page of 8,000 inputs of 1 KiB.
	PageBytes int
	// Loads is how many entities are loaded at a time. Default 4: enough to
	// keep a disk busy beside the writer.
	Loads int
	// CommitTimeout is how long one attempt to commit may take; after that its
	// outcome is unknown. Default 10 s: longer than a disk that stutters.
	CommitTimeout time.Duration
	// LoadTimeout is how long a load may take, and how long it may wait before it
	// starts; after that it fails, and may be tried again. A connection that died
	// silently is closed within this time. Default 10 s: longer than the largest
	// entity takes, shorter than clients wait.
	LoadTimeout time.Duration
	// RetryFor is how long a batch that was definitely not committed is retried
	// before its operations are refused as full. Default 5 s.
	RetryFor time.Duration
	// RetryDelay is the delay before the first retry; it doubles up to 64 times that
	// value. Default 2 ms.
	RetryDelay time.Duration
	// OpenFor is how long opening a store that does not answer is retried, with
	// delays of up to 2 s. Default 1 min: a database that starts together with its
	// users needs less, so the process need not be restarted.
	OpenFor time.Duration
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{
		DedupeAge:     24 * time.Hour,
		DedupeCount:   100_000,
		BatchOps:      1024,
		BatchBytes:    4 << 20,
		QueueOps:      65_536,
		QueueBytes:    64 << 20,
		OpBytes:       16 << 20,
		PageBytes:     8 << 20,
		Loads:         4,
		CommitTimeout: 10 * time.Second,
		LoadTimeout:   10 * time.Second,
		RetryFor:      5 * time.Second,
		RetryDelay:    2 * time.Millisecond,
		OpenFor:       time.Minute,
	}
}

// Validate returns an error that names every field with an unusable value. It wraps
// ErrConfig.
func (c *Config) Validate() error {
	var errs []error
	atLeast := func(field string, value, least int) {
		if value < least {
			errs = append(errs, fmt.Errorf("%w: %s is %d, must be at least %d", ErrConfig, field, value, least))
		}
	}
	positive := func(field string, value time.Duration) {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("%w: %s is %v, must be positive", ErrConfig, field, value))
		}
	}
	positive("DedupeAge", c.DedupeAge)
	atLeast("DedupeCount", c.DedupeCount, 0)
	atLeast("BatchOps", c.BatchOps, 1)
	atLeast("BatchBytes", c.BatchBytes, 1)
	atLeast("QueueOps", c.QueueOps, 1)
	atLeast("QueueBytes", c.QueueBytes, 1)
	atLeast("OpBytes", c.OpBytes, 1)
	atLeast("PageBytes", c.PageBytes, 1)
	atLeast("Loads", c.Loads, 1)
	positive("CommitTimeout", c.CommitTimeout)
	positive("LoadTimeout", c.LoadTimeout)
	positive("RetryFor", c.RetryFor)
	positive("RetryDelay", c.RetryDelay)
	positive("OpenFor", c.OpenFor)
	return errors.Join(errs...)
}
