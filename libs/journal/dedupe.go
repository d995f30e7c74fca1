package journal

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// KeyTime is [sharding.KeyTime].
func KeyTime(id sharding.CommandID) (time.Time, bool) { return sharding.KeyTime(id) }

// Expired reports whether a key is so old that its dedupe entry may have been
// dropped: it has a time, and that is not after the newest time dropped.
func Expired(dropped time.Time, id sharding.CommandID) bool {
	t, ok := KeyTime(id)
	// Invariant: if a UUIDv7 key is so old that the journal may have expired it, the key's command is refused and
	// does not run.
	// Mutants: key-mark
	return ok && !dropped.IsZero() && !t.After(dropped) //mutant:false key-mark
}

// Verdicts of [Config.Drop].
const (
	Keep    Dropping = iota // not old enough
	Expire                  // may be dropped
	Forever                 // never dropped
)

// Dropping is the decision about a dedupe entry.
type Dropping uint8

// Drop decides whether the dedupe entry of a command, stored at some time, may be
// dropped now, and which time the entity must then remember (the zero time for
// keys without one). It is the caller's responsibility to keep the newest
// [Config.DedupeCount] entries.
//
// Its age is measured by [Age], so that it does not matter how clocks are set. The time inside
// a key comes from another clock, which may be ahead. If the entity remembered a time in the
// future, it would refuse new keys as expired. So an entry is kept until the key's own time is
// old as well, by the clock of the process that drops it. If the time in a key was more than
// DedupeAge later than the storing process's clock, its entry is kept forever, like its record.
// A key can expire early only if two clocks, read DedupeAge apart, are wrong; no wrong clock
// makes a key expire early.
func (c *Config) Drop(age, stored Age, wall, storedWall time.Time, id sharding.CommandID) (remember time.Time, d Dropping) {
	if c.Ahead(storedWall, id) { //mutant:false ahead-kept
		return time.Time{}, Forever
	}
	old := age-stored >= Age(c.DedupeAge.Milliseconds())
	// Invariant: setting a clock does not cause the journal to expire a command id early.
	// Guarded by: `journal.Config.Drop`. `journal.Stamp.Next`: the age of an entity's ids grows only when a record of
	// the entity is stored. If the same process has stored the entity's previous record, the age grows by the time
	// between the two records, by a clock that cannot be set. If another process has stored the previous record, the
	// age does not grow, because two processes share no such clock.
	// Mutants: journal-time, ahead-kept
	//mutant:do journal-time old = wall.Sub(storedWall) >= c.DedupeAge
	if !old {
		return time.Time{}, Keep
	}
	t, timed := KeyTime(id)
	//mutant:do ahead-kept timed = timed && !c.Ahead(storedWall, id)
	switch {
	case !timed:
		return time.Time{}, Expire
	case !t.Before(wall.Add(-c.DedupeAge)):
		return time.Time{}, Keep
	}
	return t, Expire
}

// Ahead reports whether the time inside a key was more than DedupeAge in the future
// when the command was stored.
func (c *Config) Ahead(stored time.Time, id sharding.CommandID) bool {
	t, timed := KeyTime(id)
	return timed && t.After(stored.Add(c.DedupeAge))
}
