// Package coordinator is the pure core of the coordinator: it decides which
// region owns which shard, has every decision stored before anybody hears of it, and
// sends the changes to those that watch the table.
//
// [Tenure] is what a process runs: it decides whether this coordinator may act, and
// what may leave. Inside it, [Machine] decides about shards, and [Gate] holds back
// what waits for facts to be stored. A Tenure takes one [Input] at a time and
// returns what the driver must do as [Output] values, in order. Files read by
// concern: tenure.go (taking over and stepping down), gate.go (what may leave, and
// what is stored), machine.go (being active), apply.go (facts and the table),
// register.go (regions and types), allocate.go (who gets a shard), rows.go (the
// life of one row), handoff.go (draining and balance), watch.go (who is told).
//
// # Life of a row
//
//	             GetShardHome            ShardStarted            rebalance, drain, leave
//	unallocated ─────────────▶ starting ─────────────▶ serving ─────────────▶ handing-off
//	                             ▲ HostShard                                    │ HandOff
//	                             └──────────── higher epoch ◀───────────────────┘ ShardStopped
//
// When the owner is lost, its claim is refused, or it has not claimed the shard in time
// ([Config.HostTimeout]) or, for journaled types, released it in time
// ([Config.HandoffTimeout]), a row goes from any phase to starting at a higher epoch, at
// another region if there is one. A starting
// row without an owner waits for a region that can take it, and is allocated as soon as
// there is one (a region that is being drained is the last resort). An owner is lost if
// it is no member any more; for journaled types also if it is unreachable, or has not
// registered within [Config.RecoveryWait] of the term's start.
//
// # Epochs
//
// Every allocation takes the next epoch of the term. A region that has released a shard
// takes it again only from the epoch after the one that it had, and names that epoch when
// it refuses the shard (control.HostRefused.Above). So a message may name the epoch after
// the last one given out. A message with a higher epoch than that shows that a newer
// coordinator exists. The message is ignored: this term is about to end anyway.
//
// # What this does not do
//
// It stores nothing itself: the driver does. It detects no failures, and it competes for
// no lease: see package lease. It cannot promise one live owner of a shard at a time: the
// epoch and the fence of the journal make a second one harmless. It does not remember a
// region's wish to leave beyond its term; the region repeats it. It never forgets a type.
//
// # Duties of the driver
//
//  1. One goroutine steps the Tenure, with the time of a monotonic clock, and
//     performs the outputs of each Step before those of the next.
//  2. Acquired, Renewed and Lost are stepped ahead of everything else that waits.
//     A term whose renewal waited behind work would end without need.
//  3. Members are reported at every change, and before the first Acquired; a Tick
//     comes every 50 ms or so.
//  4. Requests to the journal are made beside the loop. Each is answered with its Number,
//     however late: with UnknownOutcome if the result of an operation is not known, and
//     with ReadFailed if a read failed. Only while taking over does the Tenure give up
//     waiting for an answer.
//  5. Messages may be lost, and the answer to a call too; see package control. A call
//     that nobody waits for any more is reported by CallEnded. Each call has a number
//     of its own.
//  6. RaiseTerm and YieldLease go to the lease. Resign is stepped before the lease is
//     released; after Contested the process stops.
//
// The loop to write:
//
//	for {
//		select {
//		case in := <-lease: // taken first if several wait
//			out = t.Step(time.Now(), in, out[:0])
//		case in := <-everythingElse:
//			out = t.Step(time.Now(), in, out[:0])
//		case <-ticker.C:
//			out = t.Step(time.Now(), coordinator.Tick{}, out[:0])
//		}
//		for _, o := range out {
//			perform(o) // never waits
//		}
//	}
package coordinator
