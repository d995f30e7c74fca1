package journal

import (
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// Config holds the limits of a journal.
type Config struct {
	// DedupeAge is the least time that the id of a command is kept, in the entity's own time (see
	// [Stamp.Next]), which never goes faster than clocks do. Default 24 h: longer than a client
	// that retries over night.
	DedupeAge time.Duration `key:"dedupe_age" range:"1s.." help:"minimum time that the journal remembers the idempotency key of a command. A later repeat of the command may be refused as expired. The records of a deleted entity are removed when its keys have this age"`
	// DedupeCount is the number of an entity's newest command ids that are kept, however old.
	// Default 100,000: a busy entity's day.
	DedupeCount int `key:"dedupe_count" unit:"keys" range:"0.." help:"number of an entity's newest idempotency keys that the journal remembers however old they are. The others expire at the age {.dedupe_age}: with the next snapshot of the entity, or within its next 1024 records. 0: only the age counts, and the journal takes less space for entities that had many commands" expert:"true"`
	// BatchOps is the largest number of operations in one transaction.
	// Default 1024: beyond that the price of the commit no longer matters.
	BatchOps int `range:"1.."`
	// BatchBytes is the approximate largest size of one transaction; a larger
	// operation is committed alone. Default 4 MiB: some ten milliseconds of disk.
	BatchBytes int `range:"1.."`
	// QueueOps is the number of operations that may wait for the next batch; further ones are
	// refused as full. Default 65,536.
	QueueOps int `range:"1.."`
	// QueueBytes bounds the bytes of those operations. Default 64 MiB.
	QueueBytes int `range:"1.."`
	// OpBytes is the largest single operation; a larger one is refused permanently
	// (sharding.RefusedTooLarge). Default 16 MiB: more than any snapshot should have.
	OpBytes int `range:"1.."`
	// PageBytes is the approximate size of the records that a page of wake-ups or sends reads,
	// however many entries were requested. Default 8 MiB: a page of 8,000 inputs of 1 KiB.
	PageBytes int `range:"1.."`
	// Loads is the number of entities that are loaded at a time. Default 4: enough to keep a disk
	// busy in addition to the writer.
	Loads int `range:"1.."`
	// CommitTimeout is the longest time that one attempt to commit may take; after that its outcome
	// is unknown. Default 10 s: longer than a disk that stutters.
	CommitTimeout time.Duration `range:">0"`
	// LoadTimeout bounds the time that a load may take, and the time that it may wait before it
	// starts; after that it fails, and may be tried again. A connection that died silently is
	// closed within this time. Default 10 s: longer than the largest entity takes, shorter than
	// clients wait.
	LoadTimeout time.Duration `range:">0"`
	// RetryFor is the time that a batch that was definitely not committed is retried before its
	// operations are refused as full. Default 5 s.
	RetryFor time.Duration `range:">0"`
	// RetryDelay is the delay before the first retry; it doubles up to 64 times that
	// value. Default 2 ms.
	RetryDelay time.Duration `range:">0"`
	// OpenFor is the time that opening a store that does not answer is retried, with delays of up
	// to 2 s. Default 1 min: a database that starts together with its users needs less, so the
	// process need not be restarted.
	OpenFor time.Duration `range:">0"`
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
func (c *Config) Validate() error { return setting.Wrap(ErrConfig, setting.Ranges(c)) }
