// Package coordinator is the pure core of the coordinator: it decides which
// region owns which shard, writes every decision down before anybody hears of
// it, and tells whoever watches.
//
// [Machine] takes one [Input] at a time and returns what the driver must do as
// [Output] values, in order. Files read by concern: machine.go (being active),
// apply.go (facts and the table), register.go (regions and types), allocate.go
// (who gets a shard), rows.go (the life of one row), handoff.go (draining and
// balance), watch.go (who is told), gate.go (what may leave, and what is stored).
//
// # Life of a row
//
//	             GetShardHome            ShardStarted            rebalance, drain, leave
//	unallocated ─────────────▶ starting ─────────────▶ serving ─────────────▶ handing-off
//	                             ▲ HostShard                                    │ HandOff
//	                             └──────────── higher epoch ◀───────────────────┘ ShardStopped
//
// Owner lost, claim refused, time-out: from any phase to starting elsewhere at
// a higher epoch. A row that is starting without an owner has nobody who could
// take it; it is allocated as soon as a candidate appears (a region that is
// being drained is the last resort). Lost means: no
// member any more, or, for journaled types, unreachable, or not registered
// within [Config.RecoveryWait] of the term's start.
//
// # Epochs
//
// Every allocation counts an epoch up within the term. A message that speaks
// of an epoch which this term cannot have caused comes from a newer
// coordinator's time: it is ignored, the end of this term is under way.
//
// # What this does not do
//
// It holds no lease, stores nothing and detects no failures: the driver says
// when it is active, keeps the facts and reports the membership. It cannot
// promise one live owner of a shard at a time: the epoch and the fence of the
// journal make a second one harmless. It does not remember a region's wish to
// leave beyond its term; the region repeats it. It never forgets a type.
package coordinator
