// Package wakeup decides when the wake-ups of the open shards fire. [Keeper] is a pure state
// machine: it asks the journal for the wake-ups that are due soon, holds these in memory, and
// has their commands run when their time has come, by [turn.Fire].
//
// # What is in memory
//
// A shard is swept from time to time: all its wake-ups that are due within [Config.Ahead] are
// read, in the order in which they are due, in pages. A sweep stops while there is no room
// for another page, and goes on when some have fired. Between two sweeps, what becomes durable
// in this process ([turn.WakesChanged]) is added if it is due soon; all else is read by a later
// sweep, in time. So a wake-up that is in the journal is never lost: whatever this package
// forgets, or misunderstands, is there again at the next sweep.
//
// # Time
//
// A wake-up is due by the clock of the journal's store: its time at the last page, plus what
// the monotonic clock of this process has counted since then. So a clock that was set wrong
// on the machine of a region has no effect. Wake-ups fire late, never early.
//
// # Failures
//
// A firing that fails is repeated with a growing pause, which is counted in memory. Of an
// entity one firing is under way at a time, and the number of those of a type is bounded: an
// entity whose handler hangs holds back no other entity, and a type no other type.
//
// # What this does not do
//
// It does not make sure that a wake-up fires once: the journal does, which refuses a firing
// unless that very setting stands. So nothing bad happens if the memory is wrong.
package wakeup
