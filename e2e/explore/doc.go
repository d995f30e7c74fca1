// Package explore searches small worlds exhaustively: the real cores and the real rules
// of the journal (journal.Decide), in every order of events up to a bound, breadth first,
// each state once.
//
// There are five scopes:
//
//   - handoff: two regions, one shard that is drained from its owner, and given away when the owner
//     has released it;
//   - handover: the same, but an epoch is reserved for the successor, and the old owner itself tells
//     the successor that it has released the shard;
//   - append: the owner of the shard is suspected while two commands for one entity are in
//     flight, one of them sent twice;
//   - lease: two candidates and the store;
//   - tenure: what lies between the lease and the facts: taking over, storing, compacting and
//     stepping down.
//
// Each scope has two coordinators, except lease.
//
// In every state any message that is in flight may arrive next. While the budgets of
// [Bound] last, a timeout of one process may expire, or a fault may happen:
//
//   - a message is duplicated;
//   - a region, a candidate or a coordinator crashes;
//   - the outcome of a commit is unknown, and the commit may happen later;
//   - the record of the lease is lost;
//   - another coordinator is elected while the old one goes on.
//
// Loss is not a separate fault. A path is one sequence of moves of the search; a message that
// does not arrive on a path is lost there. In the scopes with regions, a crashed coordinator
// is one that sends nothing until it is elected again.
//
// In the tenure scope each coordinator has a [lease.Holder] of its own. Every request to the
// lease or to the journal is a message, and so is every answer. Regions are only names there.
// On a path, at most two requests come to the coordinators from outside. There are three
// kinds of them:
//
//   - a region registers a changed type;
//   - the home of a shard is asked for;
//   - the drain of a region begins or ends.
//
// Each of them makes the active coordinator store facts. The fact stream begins with three
// facts of an earlier coordinator, and a checkpoint is due after four. So two requests are
// enough for a checkpoint, and for the snapshot after it.
//
// # How
//
// A world consists of parts: processes, the store, the client. Parts and messages are
// interned: each distinct state of a part, and each distinct message, has a number. So a
// state of the world is a few numbers.
//
// A move is one thing that may happen. Its effect depends only on the parts that it uses;
// the engine ensures that by passing it no other parts. So moves are memoised: the cores
// are stepped once for each combination of a move and the numbers of the parts it uses.
//
// Messages that cannot change anything any more are pruned (void.go, stream.go): orders
// and answers about an epoch that the shard has passed, and operations that the journal
// will always refuse. A test compares the result with that of searches that do not prune:
// in both, every part reaches exactly the same states.
//
// # What is checked
//
// In every state and at every event:
//
//   - epochs grow, and sequence numbers of the journal grow without gaps;
//   - each command appends its number at most once (an entity here is a list of numbers);
//   - acknowledged commands are in the journal, refused ones are not;
//   - an answer shows a durable state that is not older than its call;
//   - a region that sent ShardStopped does not serve the shard again at that epoch;
//   - a serving row is claimed;
//   - nothing is sent before its fact is durable;
//   - the lease is valid for one holder at a time, in a term of its own;
//   - each core's own invariants hold.
//
// # What this does not do
//
// Gateways, gossip and the watch of the table are left out: a client sends to the owner
// of any row that ever had phase serving, and regions register when the search says so.
//
// In the scopes with regions the lease is not modelled: who holds it is assumed. There a
// take-over takes no time, and an answer of the journal arrives at the instant of the commit,
// or never (the outcome is unknown). A message to a standby is lost. In the append scope,
// messages to the coordinators arrive at once, and their facts are durable at once; in the
// handoff scope both may take longer.
//
// Time passes only when a timeout expires. In the handoff and append scopes it then advances by one
// second. A core that repeats a message until it is answered does so within a second. In
// the lease and tenure scopes time advances by one second or three, for both processes alike. There
// are no deadlines and no passivation. In the tenure scope reads do not fail, the journal is never
// full, and a coordinator writes one journal heartbeat per term. A coordinator that finds the
// journal heartbeats of another cluster watches them for a while before it decides; no path lasts
// that long. Only safety is searched; package sim checks that everything finishes.
//
// A region has one shard core, because there is one shard: a second shard core would have nothing
// to do. Messages between the control core and the shard core arrive at once.
// Package sim delays them, in regions with three shard cores.
//
// make explore searches the scopes append and lease exhaustively, with at most two faults and two
// timeouts, which takes minutes. The others are too large for that. In the handoff scope there are
// 5.1 million states with at most two faults and one timeout, and 0.8 million with at most one
// fault and two timeouts; with two faults and two timeouts, 17 million are within the first 14
// moves, and paths are more than three times as long. make explore searches the handoff scope
// within the first two of these bounds, the handover scope with at most one fault and one timeout
// (666,306 states) and with at most two faults and no timeout, and the tenure scope with at most two faults and one
// timeout, and with two timeouts and no fault. make test searches every scope within smaller
// bounds.
package explore
