// Package coordinator is the pure core of the coordinator: it decides which
// region owns which shard, makes every decision durable before anybody learns of it, and
// sends the changes to the processes that watch the table.
//
// Decisions are stored as facts. A process runs a [Tenure], which decides
// whether this coordinator may act. Inside it, [Machine] decides about shards, and [Gate]
// holds back every output until the facts before it are stored. A Tenure takes one [Input]
// at a time and returns what the driver must do as [Output] values, in order.
//
// The Machine is composed of nouns, each with its own state:
//
//	term.go             the term: whether this coordinator acts, tenure.go, takeover.go and gate.go around it
//	ledger.go           which facts are durable
//	liveness.go         regions: names.go, health.go, load.go, forms.go, commands.go
//	table.go            types and rows: deltas.go, watch.go
//	internal/intent     what operators want
//	internal/quarantine which entities make the processes of regions crash
//	internal/budget     how many handoffs may be in progress; the brake
//	internal/fact       the facts themselves
//
// None of them knows another one. Three layers use them, and each uses the one before:
//
//	placement.go  which region may get a shard, and gets it; rollout.go
//	transit.go    the life of a row: apply.go, handoff.go, crash_wait.go, look.go; explain.go for people
//	machine.go    dispatch: register.go, review.go, plan.go, request.go, and the views of operators
//
// # Life of a row
//
//	             (1)            (2)           (3)
//	unallocated ─────▶ starting ─────▶ serving ─────▶ handing-off
//	                      ▲               ▲             │     │
//	                      │               └─────────────┘     │
//	                      │                     (4)           │
//	                      └───────────────────────────────────┘
//	                                    (5)
//
// Each arrow is a fact, which an event causes. In the new phase, the coordinator repeats an order until
// the next event:
//
//	    event                                                      order in the new phase
//	(1) GetShardHome for a shard without a row                     HostShard to the owner
//	(2) ShardStarted from the owner                                none
//	(3) a move for balance, a drain, a region that leaves          HandOff to the owner
//	(4) ShardStarted from the successor, at the reserved epoch     none
//	(5) ShardStopped, if no epoch is reserved; or the successor    HostShard to the new owner
//	    has failed. The new owner gets a higher epoch
//
// The fact that begins a handoff may reserve an epoch for the successor. Then the row becomes serving
// when the successor has claimed the shard at that epoch. When the owner has released the shard, it
// sends HostShard to the successor. The coordinator also sends HostShard to the successor:
//
//   - when it receives ShardStopped;
//   - when the owner is lost;
//   - when the owner has not released the shard in time.
//
// From then on the coordinator waits for the successor. If no epoch is reserved, or if the successor
// fails, the row goes to starting.
//
// If the owner of a shard fails, the row goes from any phase to starting, at a higher epoch, and the
// shard goes to another region if there is one. The owner fails in five ways:
//
//   - It is lost (see below).
//   - Its claim of the shard is refused.
//   - It has not claimed the shard in time ([Config.HostTimeout]).
//   - It has not released the shard in time ([Config.HandoffTimeout]; journaled types only).
//   - It reports that it is cut off from the journal, while the coordinator reaches the journal
//     (journaled types only).
//
// While the coordinator waits for a successor, these rules apply to the successor, not to the owner.
//
// An owner is lost if it is no longer a member. For journaled types it is also lost if it
// is unreachable, or has not registered within [Config.RecoveryWait] of the term's start.
//
// A starting row without an owner is allocated as soon as a region can take the shard. A region that is
// being drained is chosen only if no other region can take the shard.
//
// # Plans
//
// One plan decides about all entity types. The driver computes it in the background: the core emits a
// [Plan], which has the present rows and regions, and does not wait for the result. At most one plan is
// being computed at a time. When the result arrives, the core checks each move again, against the rows
// and regions that it has then. The fact that begins a handoff ([RowFact]) names the successor, so a new
// coordinator can complete the move. If a handoff begins without a plan, the strategy chooses the
// successor at that time. If the successor can no longer get shards, the strategy chooses another one.
//
// # Epochs
//
// Every allocation takes the next epoch of the term, and so does every reservation for a successor. So
// a later allocation of the shard has a higher epoch than the reserved one.
//
// A message may name an epoch that cannot follow from anything that this coordinator has done. Then a
// newer coordinator exists, and the message is ignored, because this term will end soon. The highest
// epoch that can follow is the last epoch that it has allocated, plus 1. The reason for the 1: a region
// that has released a shard at epoch e takes the shard again only at e+1 or above. When the region
// refuses a lower epoch, its answer names e+1 (control.HostRefused.Above).
//
// # What this does not do
//
// The core stores nothing itself: the driver does. The core detects no failures. It does not compete
// for the lease: see package lease. It cannot promise that a shard has one live owner at a time: the
// epoch and the fence of the journal make a second owner harmless. When a term ends, the core forgets
// which regions want to leave; each of these regions asks the next coordinator again. The core never
// forgets an entity type. If no region hosts a type, the type stays in the table, and after
// [Config.UnhostedAfter] the table reports that no region hosts it.
//
// # Duties of the driver
//
//  1. One goroutine steps the Tenure, with the time of a monotonic clock, and
//     performs the outputs of each Step before the outputs of the next.
//  2. Step receives Acquired, Renewed and Lost before all other inputs that wait. If a renewal waited
//     after other inputs, the term could end without need.
//  3. Members are reported at every change, and before the first Acquired. Step receives a Tick about
//     every 50 ms.
//  4. Requests to the journal are made in the background. Each request is answered with its Number,
//     however late. If the result of an operation is not known, the answer is UnknownOutcome. If a
//     read failed, the answer is ReadFailed. An active Tenure waits for an answer without limit.
//     During a take-over, a Tenure waits for a limited time, and then asks again.
//  5. Messages may be lost, and so may the answer to a call; see package control. If the caller no longer
//     waits for a call, Step receives CallEnded. Each call has a number of its own.
//  6. A Plan is computed in the background. Step receives the result of [Plan.Compute], however late.
//  7. An [Explained] is given to an [ExplanationLog]. When a term begins, [ExplanationLog.Begin] is
//     called. When it ends, [ExplanationLog.End] is called, or [ExplanationLog.Flush] if the
//     coordinator has resigned. The requests of the ExplanationLog to the journal are made in the
//     background.
//  8. RaiseTerm and YieldLease go to the lease. Step receives Resign before the lease is
//     released, and the lease is released when the ExplanationLog has ended. After Contested (another cluster
//     uses the journal) the process stops.
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
