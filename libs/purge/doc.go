// Package purge decides when what is left of deleted entities is removed from the journal: a
// pure state machine beside the entity core, one for each shard core of a region.
//
// A deleted entity keeps the records of the life that has ended until their keys are old
// enough to be forgotten. The journal has a row for each of these entities that says when it is
// looked at next ([sharding.PurgeWake]): some times before its keys are old, because time
// counts only between two looks of one process. Such a look is a purge that removes nothing. The [Purger] reads the rows of its open shards that are due, a
// page at a time, and has what they are about removed ([Purge]), at a constant rate and a few
// at a time: removing never competes with commands for long. Each shard is looked at once in
// [Config.Interval], and again at once as long as a page is full.
//
// Nothing rests on the memory of a Purger. The journal decides what is removed, under the
// shard's fence; what a Purger has not done, or of which the outcome is unknown, is due still,
// and is read again.
//
// # What this does not do
//
// It reads no clock, and does not decide what is old enough: the journal does. It knows
// nothing of live entities. An entity that is alive when it is purged has no records: its next
// append is refused by sequence, and it is loaded again.
//
// # Duties of the driver
//
//  1. Step is never called by two goroutines at a time, and a [Tick] comes every 20 ms or so.
//  2. Every [Read] is answered by one [Page], every [Purge] by one [Purged], however late.
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
//			read(r) // beside the loop
//		}
//		for _, x := range out.Purges {
//			submit(x)
//		}
//		out.Reads, out.Purges = nil, nil
//	}
package purge
