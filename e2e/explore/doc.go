// Package explore searches small worlds exhaustively. It runs the real cores and the real rules of the
// journal (journal.Decide) in every order of events, up to a bound. The search is breadth first, and
// visits each state once.
//
// There are five scopes:
//
//   - handoff: two regions and one shard, in a rollout. The owner is drained. A third region, of an
//     earlier version, does not read what the owner may have stored, so that no successor is chosen
//     before the owner has reported its stored forms. When it has released the shard, the coordinator gives
//     the shard to the other region;
//   - direct: the same move as a direct handoff. An epoch is reserved for the successor, and the old
//     owner itself tells the successor that the shard is released;
//   - append: two commands for one entity are in flight, one of them sent twice. Meanwhile the owner of
//     the shard is suspected;
//   - lease: two candidates and the store of the lease;
//   - tenure: how a coordinator with the lease takes over, stores facts, compacts them, and steps down.
//
// Each scope has two coordinators, except lease.
//
// In every state, any message that is in flight may arrive next. While the budgets of [Bound] are not
// used up, a timeout of one process may expire, or a fault may happen:
//
//   - a message is duplicated;
//   - a region, a candidate or a coordinator crashes;
//   - the outcome of a commit is unknown, and the commit may happen later;
//   - the record of the lease is lost;
//   - another coordinator is elected while the old one continues.
//
// The loss of a message is not a separate fault. A path is one sequence of moves of the search. If a
// message does not arrive on a path, the message is lost on that path. In the scopes with regions, a
// crashed coordinator sends nothing until it is elected again.
//
// In the tenure scope each coordinator has a [lease.Holder] of its own. Every request to the
// lease or to the journal is a message, and so is every answer. Regions are only names there.
// On a path, at most two requests come to the coordinators from outside. There are three
// kinds of them:
//
//   - a region registers a changed type;
//   - the home of a shard is requested;
//   - the drain of a region begins or ends.
//
// Each request makes the active coordinator store facts. The fact stream begins with three facts of an
// earlier coordinator, and a checkpoint is due after four facts. So two requests are enough to reach a
// checkpoint and the snapshot after it.
//
// # How
//
// A world consists of parts: the processes, the store and the client. Parts and messages are interned:
// each distinct state of a part, and each distinct message, has a number. So a state of the world is a
// few numbers.
//
// A move is one event. Its effect depends only on the parts that the move uses. The engine ensures that
// by passing no other parts to the move. So moves are memoised: the cores are stepped once for each
// combination of a move and the numbers of the parts that the move uses.
//
// A message is pruned when it can no longer change anything (void.go, stream.go). Examples are an order
// or an answer about an epoch that the shard has passed, and an operation that the journal will always
// refuse. A test compares searches that prune with searches that do not. In both, every part reaches
// exactly the same states.
//
// # What is checked
//
// In every state and at every event:
//
//   - epochs grow, and sequence numbers of the journal grow without gaps;
//   - each command appends its number at most once (an entity here is a list of numbers);
//   - acknowledged commands are in the journal, refused ones are not;
//   - an answer shows a durable state, which is not older than the call;
//   - a region that sent ShardStopped does not serve the shard again at that epoch;
//   - a serving row is claimed;
//   - nothing is sent before its fact is durable;
//   - the lease is valid for one holder at a time, in a term of its own;
//   - each core's own invariants hold.
//
// # What this does not do
//
// Gateways, gossip and the watch of the table are left out. Instead, a client sends to the owner of any
// row that ever had phase serving. The registration of a region is a move of the search. The third region of
// the handoff scope only registers, at once, and is drained and cordoned from the beginning: it is given the
// shard only if there is no other region, and then it does not answer.
//
// In the scopes with regions the lease is not modelled: the search decides which coordinator is active.
// There a take-over takes no time, and a message to a standby is lost. An answer of the journal arrives
// at the instant of the commit, or never; then the outcome is unknown. In the append scope, messages to
// the coordinators arrive at once, and facts are durable at once. In the handoff scope both may take
// longer.
//
// Time passes only when a timeout expires. In the handoff and append scopes, time then advances by one
// second. If a core repeats a message until it is answered, it does so within a second. In the lease
// and tenure scopes, time advances by one second or three, for both processes alike. There are no
// deadlines and no passivation. In the tenure scope reads do not fail, the journal is never full, and a
// coordinator writes one journal heartbeat per term. If a coordinator finds journal heartbeats of
// another cluster, it watches them for a while before it decides. No path lasts that long. The search
// checks safety only. Package sim checks that everything finishes.
//
// A region has one shard core, because there is one shard, and a second shard core would have nothing
// to do. Messages between the control core and the shard core arrive at once. Package sim delays these
// messages, in regions with three shard cores.
//
// make explore searches the scopes append and lease exhaustively with at most two faults and two
// timeouts, which takes minutes. The other scopes are too large for these bounds. The handoff scope has
// more than 5 million states with at most two faults and one timeout, and 1.7 million with at most one fault
// and two timeouts. With two faults and two timeouts, it has more than 17 million states within the first
// 14 moves, and paths are more than three times as long. make explore searches the large scopes within
// these bounds:
//
//   - handoff: two faults and one timeout; one fault and two timeouts;
//   - direct: one fault and one timeout (666,306 states); two faults and no timeout;
//   - tenure: two faults and one timeout; no fault and two timeouts.
//
// make test searches every scope within smaller bounds.
package explore
