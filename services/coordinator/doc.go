// Package coordinator is the pure core of the coordinator: it decides which
// region owns which shard, makes every decision durable before anybody hears of it, and
// sends the changes to the processes that watch the table.
//
// Decisions are stored as facts. [Tenure] is what a process runs: it decides
// whether this coordinator may act. Inside it, [Machine] decides about shards, and [Gate]
// holds back every output until the facts before it are stored. A Tenure takes one [Input]
// at a time and returns what the driver must do as [Output] values, in order.
//
// The files, by concern:
//
//	tenure.go    stepping up and down
//	takeover.go  whether the journal may be claimed
//	gate.go      which facts are stored next, and which outputs may leave
//	machine.go   being active
//	apply.go     facts and the table
//	register.go  regions and types
//	commands.go  which commands a type has
//	forms.go     which regions read what is stored in a shard
//	look.go      what is stored in shards that no region reads
//	hosts.go     which types no region hosts
//	health.go    which regions reach the journal
//	allocate.go  which region gets a shard
//	plan.go      which shards move for balance
//	steer.go     what operators want of placement
//	request.go   what operators may request, and what each request would do
//	rows.go      the life of one row
//	handoff.go   releasing shards
//	budget.go    how many handoffs may be under way
//	brake.go     when moves pause because commands are slow
//	gateways.go  what gateways say of their users
//	rollout.go   which version of the application gets shards
//	decide.go    what was decided and why, for people
//	ring.go      keeping that
//	watch.go     the watches of the table
//
// # Life of a row
//
//	             GetShardHome            ShardStarted            rebalance, drain, leave
//	unallocated ─────────────▶ starting ─────────────▶ serving ─────────────▶ handing-off
//	                             ▲ (sends HostShard)      ▲     (sends HandOff) │ │
//	                             │                        └── reserved epoch ◀──┘ │ ShardStarted of the successor
//	                             └──────────── higher epoch ◀─────────────────────┘ ShardStopped
//
// The fact that begins a handoff may reserve an epoch for the successor. Then the row becomes serving
// when the successor has claimed the shard at that epoch. The owner tells the successor when it has
// released the shard. The coordinator, too, tells the successor: when it hears of the release
// (ShardStopped), when the owner is lost, or when the owner has not released the shard in time. From
// then on the coordinator waits for the successor. Without a reserved epoch, or without the successor, the row goes to starting.
//
// A row goes from any phase to starting at a higher epoch, at another region if there is
// one, when its owner
//
//   - is lost (see below);
//   - has its claim of the shard refused;
//   - has not claimed the shard in time ([Config.HostTimeout]);
//   - has not released the shard in time ([Config.HandoffTimeout]; journaled types only);
//   - says that it is cut off from the journal, while the coordinator reaches the journal
//     (journaled types only).
//
// While the coordinator waits for a successor, these rules apply to the successor instead of the owner.
//
// An owner is lost if it is no longer a member. For journaled types it is also lost if it
// is unreachable, or has not registered within [Config.RecoveryWait] of the term's start.
//
// A starting row without an owner waits for a region that can take it, and is allocated as
// soon as there is one. A region that is being drained is the last resort.
//
// # Plans
//
// What moves for balance is planned over all types at once, beside the loop: the core asks for a
// [Plan], based on the present rows and regions, at most one plan at a time, and goes on. When the plan
// arrives, each of its moves is checked again, against the rows and regions of that moment. The fact
// that begins the handoff ([RowFact]) names the region that is to get the shard, the successor.
// Therefore a new coordinator can go on with the plan. If a shard leaves without a plan, the strategy
// chooses the successor when the handoff begins. A successor that cannot be given shards any
// more is replaced by the region that the strategy chooses.
//
// # Epochs
//
// Every allocation takes the next epoch of the term, and so does every reservation for a successor:
// later allocations of the shard are above it. A region that has released a shard at epoch e
// takes it again only from e+1 on, and names e+1 when it refuses the shard
// (control.HostRefused.Above). So an answer to an order of this coordinator names an epoch that is
// at most 1 above the last epoch that this coordinator has allocated. A message that names a higher epoch was
// caused by a newer coordinator. It is ignored: this term is about to end anyway.
//
// # What this does not do
//
// It stores nothing itself: the driver does. It detects no failures, and it competes for
// no lease: see package lease. It cannot promise one live owner of a shard at a time: the
// epoch and the fence of the journal make a second one harmless. When its term ends, it
// forgets which regions want to leave; each of them asks the next coordinator again. It
// never forgets a type: a type that no region hosts stays in the table, and after
// [Config.UnhostedAfter] the table says that no region hosts it.
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
//     with ReadFailed if a read failed. A Tenure that is active waits for an answer however
//     long it takes. During a take-over it stops waiting after a while, and asks again.
//  5. Messages may be lost, and so may the answer to a call; see package control. A call
//     that nobody waits for any more is reported by CallEnded. Each call has a number
//     of its own.
//  6. A Plan is computed beside the loop, and answered with what [Plan.Compute] returns,
//     however late.
//  7. A Decided is given to a [Ring], which is told when a term begins and ends. What the Ring
//     asks of the journal is done beside everything else.
//  8. RaiseTerm and YieldLease go to the lease. Resign is stepped before the lease is
//     released. After Contested (another cluster uses the journal) the process stops.
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
