// Package wakeup decides when the wake-ups of the open shards fire. [Keeper] is a pure state
// machine: it asks the journal for the wake-ups that are due soon, holds these in memory, and
// has their commands run when their time has come, by [turn.Fire]. [Starter] is another one,
// for wake-ups of the kind [sharding.RememberWake]: it has remembered entities brought to life
// when their shard is open, by [turn.Activate]. What follows is about the Keeper first.
//
// # What is in memory
//
// A *sweep* of a shard reads all its wake-ups that are due within [Config.Ahead], in the order
// in which they are due, in pages. Every open shard is swept every [Config.Refresh], except one
// that has no reminder at all: it is swept again when one is set. A sweep stops while there is no
// room for another page, and goes on when wake-ups have fired. Between two sweeps, a wake-up that
// this process has set ([turn.WakesChanged]) is added if it is due soon; otherwise a later sweep
// reads it in time. What this process has removed leaves the memory at once, and so do all wake-ups
// of an entity of which it is not known what has become of them ([turn.WakesUnknown]): they are
// read again. So no wake-up that is in the journal is lost, and none stays that is not: even if
// this package makes a mistake, the end of the next sweep has added what is missing and removed
// what is gone.
//
// # Time
//
// Wake-ups are due by the clock of the journal's store. Each page says what that clock showed.
// Between two pages, this package adds the time that the monotonic clock of this process has
// counted since the last page. So a clock that was set wrong on the machine of a region has no
// effect. Wake-ups fire late, never early.
//
// # Failures
//
// A firing that fails is repeated after a pause, which grows with each failure in a row. The
// failures are counted in memory only. An entity has one firing under way at a time, so an
// entity whose handler hangs holds back no other entity: what waits behind it is bounded by itself
// ([Config.BlockedRows]), and does not stop a sweep. The number of firings under way is bounded for
// each type ([Config.Firings]), so a type holds back no other type.
//
// # Remembered entities
//
// When a shard is open, the Starter reads its wake-ups of remembered entities, those that were
// active last first. It has a page of each shard in memory, and reads the next one when all
// entities of the page have been started. It ends there: an entity that is passivated stays so
// until a command comes. An entity that dies ([turn.RememberedLost]), or cannot be started, is
// started again after a back-off. If too many wait for that, the shard is read anew.
//
// # What this does not do
//
// The package does not make sure that a wake-up fires once. The journal does: it refuses a
// firing if the wake-up has meanwhile been set again, was removed, or has fired already (the
// setting must *stand*, see [sharding.WakeRef]). So nothing bad happens if the memory is
// wrong. The package reads no clock and knows no journal.
//
// # Duties of the driver
//
// The driver is whatever owns the [turn.Machine] of the same shards. In the services that is
// package region.
//
//  1. Step and Told are never called by two goroutines at a time. Their times are those of
//     a monotonic clock. A [Tick] comes every 20 ms or so.
//  2. [Open] comes when the shard is open in the machine, and [Close] as soon as it drains or
//     is aborted there. The Keeper gets them for types that are not volatile, the Starter for
//     those with [turn.Type.Remember].
//  3. Every [turn.WakesChanged], [turn.WakesUnknown] and [turn.FiringEnded] of the machine goes
//     to the Keeper's Told, every [turn.ActivationEnded] and [turn.RememberedLost] to that of
//     the Starter, in their order.
//  4. Each [turn.Fire] and [turn.Activate] goes to the machine, after the call of Step or Told
//     that has returned it.
//  5. Each [Read] is answered by one [Page] to the core that asked, which is read from the
//     journal after the Read.
//
// The loop to write, for a keeper k and its machine m:
//
//	for in := range inputs {
//		var want wakeup.Outputs
//		switch in := in.(type) {
//		case wakeup.Input: // an Open, Close, Page or Tick
//			k.Step(now, in, &want)
//		case turn.Input:
//			for _, o := range m.Step(now, in, nil) {
//				perform(o)
//			}
//			for _, e := range m.ShardEvents() {
//				k.Told(now, e, &want)
//			}
//		}
//		for _, r := range want.Reads {
//			read(r) // returns at once; the Page becomes an input later
//		}
//		for _, f := range want.Fires {
//			inputs.Put(f) // it is a turn.Input
//		}
//	}
package wakeup
