// Package gossip is the membership core: which processes form the cluster,
// which of them can be reached, and who leads. It is a pure state machine,
// [Machine]: messages, ticks and requests go in, messages to send and events
// come out, and a driver does the rest.
//
// # How it works
//
// Every node keeps a [State]: the members, who has seen exactly this state,
// who observes whom as unreachable, a vector clock, and tombstones of removed
// nodes. Nodes tell each other the digest of their state at short intervals
// (push-pull, status first), and when digests differ, the hashes of its parts and
// then the parts that differ, records of a few members. A round goes to one
// member, while there is news to two, and the leader's, for which all wait, to ten.
// Two states are always joined, never replaced: the join is idempotent,
// commutative and associative, so in the end all nodes hold the same state
// whatever the network did to the messages. The vector clock counts who changed
// what, so that two views can be compared.
//
// A state is converged when everybody who matters has seen it and nobody who
// matters is unreachable. Then the leader, which is no office but a function
// of the state, moves members on: joining to up, leaving to exiting, exiting
// and down to removed.
//
// Every node sends heartbeats to a few others, the next ones on a hashed ring,
// and judges by the replies, with a phi accrual failure detector, or a deadline
// ([Profile]). When most of them fall silent at once it suspects itself first. Being unreachable is
// reversible and stops nothing but convergence. Being down is final: a [Downing]
// provider or an operator decides it, and the node concerned stops as soon as it
// hears of it. The provider is asked on every node; which of them answers for its
// side is a part of the rule that it follows.
//
// A node is an address and an incarnation number. A process that comes back at
// the same address is another node; a heartbeat reply from the new incarnation
// is proof that the old one is gone.
//
// # Forming one cluster
//
// Only the first seed node may form a cluster, and only when no other seed
// knows of one for a while. Members keep telling seed addresses that are no
// members where the cluster is, so restarted seeds find it. Should two
// clusters exist all the same, or two halves of one that declared each other
// down, the senior one stays (see [Claim]) and the nodes of the other stop, to
// be started again as new incarnations.
//
// The protocol follows Akka Cluster's (reference documentation, "Cluster
// Membership Service"); joining states unconditionally, seniority and evidence
// by heartbeat reply are ours.
//
// # Forgetting
//
// Tombstones are forgotten by eras and not by a clock, see [Era]: a node that was
// paused or cut off for any time cannot come back, or bring anybody back, once it
// was removed.
//
// # What this does not do
//
// It promises no agreement: during a partition both sides may lead and declare
// each other down, and views of different nodes differ for a while. Nothing
// that must happen at most once may rest on membership alone. It sends
// nothing, reads no clock and keeps nothing on disk. It does not know who may
// join: the driver lets in only peers that it trusts.
package gossip
