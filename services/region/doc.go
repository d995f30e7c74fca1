// Package region is the pure core of the region service. The core takes shards and hands shards off.
// It admits a command only if the command was routed at the epoch of its shard. Package turn runs the
// entities of the shards.
//
// # One control core, several shard cores
//
// A region has one [ControlCore], which above all talks to the coordinator. The shards are divided
// among one or more [ShardCore]s. Each ShardCore checks epochs for its own shards and has its own
// entities, so several processors can run the ShardCores.
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
// The control core checks an order of the coordinator (term, epoch, type) and passes the order on to
// the shard core of the shard; see [Config.CoreOf]. The shard core carries the order out and reports
// the result. The control core also passes changes of the route table's rows on, in their order. When
// a shard core refuses a command with NotMine, the refusal carries the newest row that the shard core
// knows. Each shard core claims its own shards. The control core and the shard core both know the row
// of a shard. Only the shard core knows anything else about the shard.
//
// The limits of commands, bytes and loads hold for all shard cores together, see [Resource]. The limit
// on the memory of results that wait for the journal is divided equally among the shard cores. If a
// shard core has reached a limit, it refuses commands. It never waits for another core.
//
// # A shard's life in a region
//
// A shard passes through these steps at epoch e:
//
//  1. HostShard(e) arrives, and the region sends Claim(e) to the journal.
//  2. After the claim, the region serves the shard. It accepts commands that were routed at exactly e.
//  3. HandOff(e) arrives. The shard finishes its accepted commands, its entities stop, and its appends
//     settle.
//  4. The region sets the minimum epoch of the shard to e+1, and answers ShardStopped(e).
//
// The region refuses a HostShard below the minimum epoch. So a late repeat of HostShard cannot revive a
// shard that the region has released.
//
// HostShard may name a region that has kept the states of the shard's entities. The new owner then
// fetches these states after the claim, before it serves the shard ([FetchKept]). If a type keeps
// states on moves, a region that has handed a shard off keeps the states until the next owner has
// fetched them ([GiveKept]).
//
// HandOff may name the successor of the shard. When the region has released the shard, it sends
// HostShard to the successor. It repeats HostShard until one of these events:
//
//   - The region knows a row of the shard with a higher epoch.
//   - The successor has refused.
//   - [Config.SuccessorTimeout] has passed.
//
// The successor claims the shard at the epoch that the coordinator has reserved for the successor. The
// successor reports the claim to the old owner, and to the active coordinator if there is one. Both
// regions then know that the successor serves the shard. They answer FindShards accordingly, even if no
// coordinator has stored the new owner yet. See direct.go.
//
// A row of the table, a command or the fence may show that the shard has a higher epoch. In each of
// these cases, the region stops the shard at once. If the fence has shown it, the coordinator may not know
// of it, because a repair has claimed the shard. So the region tells the coordinator, which gives the shard away
// again.
//
// # Commands between entities
//
// An entity can send commands to other entities. A router (package router, as in gateways), which runs
// in addition to the cores, sends these commands. If another region has the target's shard, the command
// goes over a link. If this region has the target's shard, the command becomes a [Command] at the epoch
// of the router's row. Commands that arrive over links become Commands, too. So the region checks the
// epoch of every command in the same way, whether an entity or a client has sent the command.
//
// When an entity sends its first command to another entity, the driver steps the control core with
// [FeedRouter]. From then on, the control core passes each change of the route table on to the router
// ([Feed]). So the router need not poll the table.
//
// # Leaving
//
// When the region leaves, the control core asks the coordinator to take the region's shards. It also
// orders every shard core to take no more shards. Each shard core reports three things: that it is
// leaving, that it holds no shard, and that it keeps no states that a next owner may fetch. The region
// has left when every shard core has reported all three. By then, every shard core has obeyed or
// refused all earlier orders of the control core.
//
// # What this does not do
//
// The core opens no connection, writes no disk and runs no user code. It does not trust its own view
// of who owns a shard, because only the journal's fence decides.
//
// # Duties of the driver
//
//  1. The driver never steps a core in two goroutines at a time. It may step different cores at
//     the same time. All cores get their times from the same monotonic clock. The driver steps every
//     core with a [Tick] about every 20 ms. While nothing happens, fewer are enough, as [NewRest] says, and
//     one at each time that [ShardCore.AlarmAt] returns.
//  2. A [ToCore] names a shard core and has an order: the driver steps this shard core with this
//     order. The driver wraps each [Event] into a [FromCore], and steps the control core with it.
//     No ToCore and no Event gets lost. ToCores to one shard core, and Events from one shard core,
//     arrive in their order. They may take any time, and other cores may be stepped meanwhile.
//  3. Each command goes to the shard core of its entity's shard ([Config.CoreOf]). The commands of one
//     connection reach that shard core in their order. If the region does not host the type of a
//     command, the command may go to any shard core. Before a command goes to a core, the driver checks
//     the names in the command ([sharding.Envelope.Check]). Package link checks the names when it
//     decodes a command. While the driver steps one shard core, it never waits for another.
//  4. The driver performs the outputs of a step before the outputs of the core's next step. It
//     performs each list of [Outputs] in its order, and the events last. While the driver performs
//     outputs, it never waits. For Outputs.Turn, the driver also has the duties that the comment of
//     package turn lists. Each answer goes back to the same shard core.
//  5. The driver sends each [Claim] to the journal, and answers each Claim with [Claimed], however
//     late. If the result of the Claim is not known, Claimed has the verdict UnknownOutcome.
//     The driver performs [TestJournal] and [ReadJournalHeartbeat] outside the loop. Their answers may
//     get lost. For [FetchKept], the driver asks another region, outside the loop, and answers with
//     one [KeptFetched].
//     A [GiveKept] comes from another region, and the shard core answers it with one [Kept]. If the
//     Kept has states, the driver sends them to that region once, and never again. When the driver has
//     sent the states, or cannot send them, it steps the shard core with [KeptSent].
//  6. A [Send] that is a call ends with one [Replied]. If there is no answer, Msg is nil. Every
//     other Send may get lost. A [Reply] may get lost, too.
//  7. After [Left], the process may leave the membership. After [Fail], the process stops.
//  8. The driver runs the router as package router says. The driver steps the router with each [Feed],
//     as a router.TableChange, in their order. While the region drains, the router keeps running, because running
//     turns may send commands. When no command comes in any more, the driver stops the router.
//
// The driver has this loop for the control core:
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
// It has this loop for each shard core:
//
//	for in := range shards[i] { // a ticker's Ticks too
//		shardCore.Step(time.Now(), in, &out)
//		for _, o := range out.Turn {
//			performTurn(o) // jobs run outside the loop
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
