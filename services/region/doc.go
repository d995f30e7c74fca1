// Package region is the pure core of the region service. It takes shards, admits only
// commands routed at the epoch of their shard, hands shards off, and runs their entities
// through package turn.
//
// # One control core, several shard cores
//
// [ControlCore] has what exists once per region, above all the conversation with the
// coordinator. The shards are divided among one or more [ShardCore]s, each of which has
// its own check of epochs and its own entities, so that several processors can run them.
//
//	         coordinator                          gateways
//	orders, table │ ▲ reports                      │ ▲
//	              ▼ │                              │ │ commands, answers
//	┌─ ControlCore ─────────────┐                  │ │
//	│ highest term, route table,│                  │ │
//	│ registration, leaving,    │                  │ │
//	│ health of the journal,    │                  │ │
//	│ division of the limits    │                  │ │
//	└──────┬────────────▲───────┘                  │ │
//	ToCore │            │ FromCore                 │ │
//	       ▼            │                          ▼ │
//	┌─ ShardCore i: shards whose index mod n is i ───────────────┐
//	│ epoch check, claims, buffers, minimum epochs, rows  │ turn │ × n
//	└────────────────────────────────────────────────────────────┘
//
// The control core checks an order of the coordinator (term, epoch, type) and passes it
// on to the shard core of the shard; see [Config.CoreOf]. The shard core does the rest,
// and reports the result. Changes of the table's rows reach the shard core in the same way,
// in their order. A shard core that refuses a command with NotMine adds the newest row that
// it knows. Each shard core claims its own shards. Only the row of a shard is known in two
// places; everything else about the shard is known to its shard core alone.
//
// The limits of commands, bytes and loads hold for all shard cores together, see
// [Resource]. The limit on the memory of results that wait for the journal is divided
// equally among the shard cores. A shard core that has reached a limit refuses commands, and
// never waits for another core.
//
// # A shard's life in a region
//
// HostShard(e) → Claim(e) in the journal → serving: it takes commands routed at exactly e
// → HandOff(e): what was accepted is finished, the entities stop, the appends settle →
// the minimum epoch of the shard is e+1, and ShardStopped(e) is answered. A HostShard
// below the minimum epoch is refused: a late repeat must not revive a shard that was
// released.
//
// If HostShard names a region that has kept the states of the shard's entities, these states are
// fetched after the claim and before the shard is served ([FetchKept]). If a type keeps states on
// moves, the region that has handed a shard off keeps them until the next owner has fetched them
// ([GiveKept]).
//
// HandOff may name the successor of the shard. Then the region sends HostShard to the successor once
// it has released the shard. It repeats that until it knows a row of the shard with a higher epoch,
// until the successor refuses, or until [Config.HandoverTimeout] has passed. The successor claims the shard at the epoch
// that the coordinator has reserved for it. It reports to the region, and to the active coordinator if
// there is one. Both regions then know that it serves the shard, and say so to whoever asks
// (FindShards), before a coordinator has written it down. See handover.go.
//
// Anything that shows the shard at a higher epoch (a row of the table, a command, the
// fence) stops the shard at once.
//
// # Commands between entities
//
// An entity can send commands to others. A router (package router, as in gateways) runs beside the
// cores and sends these commands. If another region has the target's shard, the command goes over a
// link. If this region has it, the command becomes a [Command], like those that come over links, at
// the epoch of the router's row. So every command passes the same check of its epoch, whether an
// entity or a client has sent it. With the first command to another entity, the control core is
// told to feed the router ([FeedRouter]): from then on it passes on what the route table gains
// ([Feed]), and nobody polls the table a second time.
//
// # Leaving
//
// The control core asks the coordinator to take the shards, and tells every shard core to
// take no others. The region has left when every shard core has reported that it is
// leaving, holds no shard, and keeps no states that a next owner may fetch. By then every shard core
// has obeyed or refused all orders that the control core passed on before.
//
// # What this does not do
//
// It opens no connection, writes no disk and runs no user code. It does not trust its
// own view of ownership: the journal's fence decides.
//
// # Duties of the driver
//
//  1. No core is stepped by two goroutines at a time; different cores may be. The time is
//     that of a monotonic clock, the same for all cores. Every core gets a [Tick] every
//     20 ms or so.
//  2. A [ToCore] is an input of the shard core that it names; an [Event] is an input of
//     the control core, as [FromCore]. None gets lost, and those from one core to another
//     arrive in their order. It does not matter how long they take, or what other cores do
//     meanwhile.
//  3. A command goes to the shard core of its entity's shard ([Config.CoreOf]); the
//     commands of one connection go there in their order. A command for a type that is
//     not hosted may go to any shard core. The names in every command are checked before it
//     goes to a core ([sharding.Envelope.Check]; package link does that when it decodes a
//     command). Nobody waits for one shard core while stepping another.
//  4. The outputs of a step are performed before those of the core's next step: each list
//     of [Outputs] in its order, the events last. Performing them never waits. For Outputs.Turn,
//     the driver has the duties that the comment of package turn lists. The answers go back
//     to the same shard core, each in a [Turn].
//  5. [Claim] goes to the journal, and is answered by [Claimed], however late; with
//     UnknownOutcome if its result is not known. [ProbeJournal] and [ReadJournalHeartbeat]
//     are performed beside the loop; their answers may get lost.
//     [FetchKept] asks another region beside the loop, and is answered by one [KeptFetched].
//     [GiveKept] comes from another region and is answered by one [Kept]. If the
//     Kept has states, the driver sends them to that region once, and never again. When they
//     have been sent, or cannot be sent, the driver steps [KeptSent].
//  6. A [Send] that is a call ends with one [Replied], with a nil Msg if there is no
//     answer. Every other Send may get lost, and so may a [Reply].
//  7. After [Left] the process may leave the membership. After [Fail] it stops.
//  8. The router is driven as its package says. Each [Feed] becomes a Table of the router, in
//     their order. While the region drains, the router goes on, because turns that still run may
//     send commands. It is stopped when no command comes in any more.
//
// The loops to write, for the control core:
//
//	for in := range control { // a ticker's Ticks too
//		for _, o := range controlCore.Step(time.Now(), in, nil) {
//			if to, ok := o.(region.ToCore); ok {
//				shards[to.Core] <- to.Order // never waits: the queue is unbounded
//				continue
//			}
//			perform(o)
//		}
//	}
//
// and for each shard core:
//
//	for in := range shards[i] { // a ticker's Ticks too
//		shardCore.Step(time.Now(), in, &out)
//		for _, o := range out.Turn {
//			performTurn(o) // jobs run beside the loop
//		}
//		for _, o := range out.Shard {
//			perform(o)
//		}
//		for _, e := range out.Events {
//			control <- region.FromCore{Core: i, Event: e}
//		}
//		out.Reset()
//		shardCore.Recycle()
//	}
package region
