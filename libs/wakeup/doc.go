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
// unless that very setting stands. So nothing bad happens if the memory is wrong. It reads no
// clock and knows no journal.
//
// # Duties of the driver
//
// The driver is whatever owns the [turn.Machine] of the same shards. In the services that is
// package region.
//
//  1. Step and Told are never called by two goroutines at a time, with the times of a
//     monotonic clock. A [Tick] comes every 20 ms or so.
//  2. [Open] comes when the shard is open in the machine, for types that are not volatile, and
//     [Close] as soon as it drains or is aborted there.
//  3. Every [turn.WakesChanged], [turn.WakesUnknown] and [turn.FiringEnded] of the machine goes
//     to Told, in their order.
//  4. Each [turn.Fire] goes to the machine, after the call that asked for it has returned.
//  5. Each [Read] is answered by one [Page], which was read after it was asked for.
//
// The loop to write:
//
//	for in := range inputs {
//		var want wakeup.Outputs
//		for _, o := range m.Step(now, in, nil) {
//			perform(o)
//		}
//		for _, e := range m.ShardEvents() {
//			k.Told(now, e, &want)
//		}
//		for _, r := range want.Reads {
//			read(r) // never waits: the Page is a later input of k
//		}
//		for _, f := range want.Fires {
//			inputs.Put(f) // for m
//		}
//	}
package wakeup
