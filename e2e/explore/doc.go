// Package explore searches small worlds exhaustively: the real cores and the
// real law of the journal, every order of events up to a bound, breadth first,
// each state once.
//
// Three scopes, each with two coordinators: handoff (two regions, one shard that
// is drained from its owner), append (the owner of the shard is suspected while
// two commands for one entity are under way, one of them sent twice), and lease
// (two candidates and the store). In every state any message that is under way
// may arrive next, or, while the budgets of [Bound] last, a fault happens: a
// message is doubled, a process crashes, the outcome of a commit is unknown and
// it may happen later, another coordinator is elected while the old one goes on;
// or the time of one process runs out. A loss is no fault of its own: what never
// arrives on a path is lost on it.
//
// # What is checked
//
// In every state and at every event: epochs and sequence numbers of the journal
// grow without gaps; a number is appended once; what was acknowledged is in the
// journal; what was refused is not; an answer shows a state that is durable, and
// nothing older than its call; a region that said ShardStopped does not take
// the shard up again at that epoch; a serving row is claimed; nothing is said
// before its fact is durable; the lease is valid for one holder at a time, in a
// term of its own; each core's own invariants hold.
//
// # What this does not do
//
// Gateways, gossip and the watch of the table are left out: a client sends to
// the owner of any row that ever served, and regions register when the search
// says so. An answer of the journal reaches who asked in the instant of the
// commit, or never (the outcome is unknown). A message to a standby is lost.
// Time runs out by one second at a time, longer than any pause of the cores in
// the clusters, and there are no deadlines and no passivation. Only safety is
// searched; that all finishes is the business of package sim.
//
// The whole bound of two faults and two timeouts is too large for a daily run:
// there a number of states is searched, nearest first, and smaller bounds to
// their end: with one fault and one timeout handoff has 113,935 states, append
// with one fault 90,132, lease with one fault and two timeouts 664,671. The
// result says whether the end was reached.
package explore
