// Package wakeup decides when the wake-ups of the open shards fire. It has two pure state machines.
// [Keeper] asks the journal for the reminders that are due soon, holds them in memory, and returns
// a [turn.Fire] for each when its time has come. [Starter] is for wake-ups of the kind
// [sharding.RememberWake]: when a shard is open, it returns a [turn.StartEntity] for each remembered
// entity. The next three sections are about the Keeper. Both read the journal by a [due.Sweeper], and retry what has failed by
// a [due.Failing].
//
// # What is in memory
//
// A *sweep* of a shard reads all its wake-ups that are due within [Config.Ahead], in the order
// in which they are due, in pages. Every open shard is swept every [Config.Refresh]. A shard without
// any reminder is the exception: it is swept again when a reminder is set. A sweep stops while there
// is no room for another page, and continues when wake-ups have fired.
//
// Between two sweeps, a wake-up that this process sets ([turn.WakesChanged]) is added if it is due
// soon; otherwise a later sweep reads it in time. A wake-up that this process removes leaves the
// memory at once. If it is not known whether an append has changed wake-ups of an entity
// ([turn.WakesUnknown]), all wake-ups of that entity leave the memory, and are read again. Even if
// this package makes a mistake, the next sweep corrects it: at its end, the memory has no
// wake-up that the journal does not have, and lacks none that should be in it.
//
// # Time
//
// Wake-ups are due by the clock of the journal's store. Each page carries the reading of that
// clock. Between two pages, this package adds the time that the monotonic clock of this process has
// counted since the last page. So a clock that was set wrong on the machine of a region has no
// effect. A wake-up may fire late, but never early.
//
// # Failures
//
// A firing that fails is repeated after a pause, which grows with each failure in a row. The
// failures are counted in memory only. An entity has one firing in progress at a time. An entity
// whose handler hangs holds back no other entity: the wake-ups that wait behind its firing have a
// limit of their own ([Config.BlockedWakes]), and do not stop a sweep. Each type has its own limit
// of firings in progress ([Config.Firings]), so a type holds back no other type.
//
// # Remembered entities
//
// When a shard is open, the Starter reads the wake-ups of its remembered entities, the most recently
// active entities first. It has a page of each shard in memory, and reads the next page when all
// entities of this page have been started. An entity that is passivated after its page was read is
// not started again: only a command loads it. An entity that cannot be started, or that ends without
// having been passivated ([turn.RememberedLost]), is started again after a back-off. If too many
// entities wait for their back-off, the shard is read anew, from its first page on.
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
//  1. Step and Observe are never called concurrently. Their times come from a monotonic clock. A
//     [Tick] comes every 20 ms or so.
//  2. [Open] comes when the shard is open in the machine, and [Close] as soon as the shard drains
//     or is aborted there. The Keeper gets both for the shards of all types that are not volatile,
//     the Starter for types with [turn.Type.Remember].
//  3. Every [turn.WakesChanged], [turn.WakesUnknown] and [turn.FiringEnded] of the machine goes to
//     the Keeper's Observe, every [turn.StartEnded] and [turn.RememberedLost] to the Starter's
//     Observe, in their order. After the last event of a step of the machine, the Keeper gets a
//     Tick, so it never fires a wake-up that an event of this step has ended.
//  4. Each [turn.Fire] and [turn.StartEntity] goes to the machine after the call that has returned
//     it, and before any other input.
//  5. Each [Read] is answered by one [Page], which is read from the journal after the Read and
//     goes to the core that asked.
//
// The loop to write, for a keeper k and its machine m:
//
//	for in := range inputs {
//		var out wakeup.Outputs
//		switch in := in.(type) {
//		case wakeup.Input: // an Open, Close, Page or Tick
//			k.Step(now, in, &out)
//		case turn.Input:
//			for _, o := range m.Step(now, in, nil) {
//				perform(o)
//			}
//			for _, e := range m.ShardEvents() {
//				k.Observe(now, e)
//			}
//			k.Step(now, wakeup.Tick{}, &out)
//		}
//		for _, r := range out.Reads {
//			read(r) // returns at once; the Page becomes an input later
//		}
//		for _, f := range out.Fires {
//			inputs.PutFirst(f) // it is a turn.Input
//		}
//	}
package wakeup
