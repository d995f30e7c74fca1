package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// Config holds the limits of a [Dispatcher]. The keys belong to the settings for sends.
type Config struct {
	// Page is the number of records of a shard that are read at a time. Default 64: records with
	// their inputs are the largest part of a page's cost.
	Page int `range:"1.."`
	// ReadShards is the number of shards that one read asks for. Default 256: the sends of a region
	// with the usual 1024 shards of a type are read by four queries.
	ReadShards int `range:"1.."`
	// Sends and Bytes bound what is held in memory: the number of sends, and the bytes of their inputs
	// and answers. Other sends stay in the journal until there is room. Defaults 50,000 and 64 MiB:
	// some seconds of a busy region.
	Sends int
	Bytes int
	// Deliveries is the largest number of commands to entities of one type in progress at a time.
	// Default 256: a region that starts with a large backlog must serve its callers too.
	Deliveries int `range:"1.."`
	// TargetDeliveries is the largest number of commands to one entity in progress at a time, each
	// from another sender. Default 16: an entity that hangs must not hold all of Deliveries.
	TargetDeliveries int `range:"1.."`
	// AttemptTimeout is the time that a target has to answer before the same command is sent again. Default 10 s:
	// longer than a handoff of its shard. It is for sends that have no Timeout of their own, as MaxAge, RetryMin and
	// RetryMax are for those without the same options, see [sharding.SendOptions].
	AttemptTimeout time.Duration `key:"timeout" range:">0..1m" why:"a command has no longer time" help:"longest time that one attempt to deliver a send may take, with the handler of its target. After this time, the context of the handler ends, and the region tries again. At most 1m, the longest time that a command has. A command may have its own (Timeout)" expert:"true"`
	// MaxAge is the longest time that a send is tried. Default 23 h, an hour less than a target
	// remembers keys: a later repeat might have its effect a second time.
	MaxAge time.Duration `key:"max_age" range:">0" help:"longest time that the region tries to deliver a command that one entity has sent to another. After this time, the command becomes a dead letter, unless a command of the sender takes the answer. A command may have its own (MaxAge). Must be below region.dedupe_age by at least an hour, or by half of region.dedupe_age if that is less, because targets remember executed commands only for region.dedupe_age" expert:"true"`
	// AgeLimit is the largest MaxAge that a send may have of its own, because targets do not remember keys for
	// longer. Default 23 h.
	AgeLimit time.Duration `range:">0"`
	// TakeGrace is the time after MaxAge that the sender of a send still has to take the answer. If the
	// command for the answer still fails then, the send becomes a dead letter in doubt. Default 1 h: if a
	// send is given up at MaxAge, its sender gets the answer only then, and an operator needs time to
	// repair the cause of a failure.
	TakeGrace time.Duration `range:">0"`
	// AckDelay is the longest time that the end of a send may wait to be stored together with
	// others. Default 50 ms: a crash in the meantime costs a repeat, which the target recognizes.
	AckDelay time.Duration `range:">0..100ms" why:"more would be repeated after a crash"`
	// AckSends is the largest number of ends that one append stores. When this many ends of a shard
	// wait, they are stored before AckDelay is over. Default 1,000: as many as one turn may send.
	AckSends int `range:"1.."`
	// Refresh is the pause between two sweeps of a shard. Default 1 min: a sweep finds only
	// what there was no room for.
	Refresh time.Duration `range:">0"`
	// DeadLetters is the number of newest dead letters that keep their reason in memory, and
	// DeadLetterBytes is the number of bytes of each reason. The reasons are for operators; no
	// decision depends on them. Defaults 1,000 and 500: together with names at most a MiB.
	DeadLetters     int `range:"1.."`
	DeadLetterBytes int `range:"1.."`
	// RetryMin is the pause after the first failure of a pair of sender and target, or of a
	// read; it doubles with each failure up to RetryMax. A random part of up to a half is
	// subtracted. Defaults 1 s and 1 min.
	RetryMin time.Duration `key:"retry_min" range:">0" help:"pause after the first failed attempt to deliver a send. The pause doubles with each further failure. A random part of at most half is subtracted. A command may have its own (Retry)" expert:"true"`
	RetryMax time.Duration `key:"retry_max" help:"longest pause between two attempts to deliver a send. Attempts come earlier when the shard of the target is served anew, when the target is released from quarantine, and by roost entity sends retry. A command may have its own (Retry)" expert:"true"`
	// Seed is the seed of the random part.
	Seed uint64
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{
		Page: 64, ReadShards: 256, Sends: 50_000, Bytes: 64 << 20, Deliveries: 256, TargetDeliveries: 16,
		AttemptTimeout: 10 * time.Second, MaxAge: 23 * time.Hour, AgeLimit: 23 * time.Hour, TakeGrace: time.Hour, AckDelay: 50 * time.Millisecond, AckSends: 1000,
		Refresh: time.Minute, DeadLetters: 1000, DeadLetterBytes: 500, RetryMin: time.Second, RetryMax: time.Minute,
	}
}

// LeastSends and LeastBytes are the least values of Config.Sends and Config.Bytes: the largest
// record has room.
const (
	LeastSends = 1000
	LeastBytes = 16 << 20
)

// AgeSlack is the extra time that a target must remember keys after a send is no longer tried: for the
// last attempt, and for clocks that differ. If targets remember keys for less than twice this time,
// half of their time is used instead.
const AgeSlack = time.Hour

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	if c.Sends < LeastSends || c.Bytes < LeastBytes {
		errs = append(errs, fmt.Errorf("outbox: Sends is %d and Bytes %d, must be at least %d and %d: one record may have as many", c.Sends, c.Bytes, LeastSends, LeastBytes))
	}
	if c.RetryMax < c.RetryMin {
		errs = append(errs, setting.Errorf("retry_max", "is %s, must be at least %s (%s)", c.RetryMax, setting.Key("retry_min"), c.RetryMin))
	}
	return errors.Join(errs...)
}

// LongestAge returns how long sends may be tried if targets remember keys for dedupeAge.
func LongestAge(dedupeAge time.Duration) time.Duration {
	return dedupeAge - min(AgeSlack, dedupeAge/2)
}

// CheckAge returns an error unless targets remember keys long enough for MaxAge. Its text names the setting of dedupeAge.
func (c *Config) CheckAge(dedupeAge time.Duration, name string) error {
	if most := LongestAge(dedupeAge); c.MaxAge > most {
		return setting.Errorf("max_age", "is %s, must be at most %s, because %s is %s: of a send that is tried for longer, its target may have forgotten that it has executed it; lower the former, or raise the latter", c.MaxAge, most, name, dedupeAge)
	}
	return nil
}
