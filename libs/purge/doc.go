// Package purge decides when to ask the journal to remove the remains of deleted entities. [Purger]
// is a pure state machine, separate from the entity core, one for each shard core of a region.
//
// The records of a life that has ended stay in the journal until their idempotency keys are old
// enough to expire. For each deleted entity the journal has a wake-up of the kind
// [sharding.PurgeWake], which holds the due time of the entity's next [journal.Purge].
//
// Several purges are due before the keys are old. These purges remove nothing. They are needed because
// the age of keys grows only when something is written: a write adds the time since the last write of
// the same process to the age (see journal.Stamp.Next). A deleted entity writes nothing itself, and
// each purge is a write.
//
// The Purger reads the wake-ups of its open shards that are due, a page at a time (by a [due.Sweeper]), and returns a [journal.Purge]
// for each of them. It does so at a constant rate, with a few purges in progress, so that they never
// compete with commands for long. Each shard is read once per [Config.Interval]; after a full page
// it is read again without a pause.
//
// No promise depends on the memory of a Purger. The journal decides what is removed, under the
// shard's fence. If a purge was not done, or has an unknown outcome, its wake-up is still due, and is
// read again.
//
// # What this does not do
//
// It reads no clock, and does not decide what is old enough: the journal does. It does not know
// which entities are alive. A deleted entity may be in memory again before it has stored anything
// new. If it is purged then, its next append is refused by sequence, and it is loaded again.
//
// # Duties of the driver
//
//  1. Step is never called by two goroutines at a time, and a [Tick] comes every 20 ms or so.
//  2. Every [Read] is answered by one [Page], every [journal.Purge] by one [Purged], however late.
//  3. A Purge goes to the journal as it is.
//
// The loop to write:
//
//	var out purge.Outputs
//	for {
//		select {
//		case in := <-inputs: // shards, pages, answers of the journal
//			p.Step(time.Now(), in, &out)
//		case <-ticker.C:
//			p.Step(time.Now(), purge.Tick{}, &out)
//		}
//		for _, r := range out.Reads {
//			read(r) // in the background
//		}
//		for _, x := range out.Purges {
//			submit(x)
//		}
//		out.Reads, out.Purges = nil, nil
//	}
package purge
