// Package gossip is the membership core: which processes form the cluster,
// which of them can be reached, and who leads. It is a pure state machine,
// [Machine]: messages, ticks and requests go in, messages to send and events
// come out, and a driver does the rest.
//
// # How it works
//
// Every node keeps a [State]: the members, which of them have seen exactly this
// state, which of them observe others as unreachable, a vector clock, and
// tombstones of removed nodes. At short intervals a node sends the digest of its state to
// another one ([GossipStatus]). When the digests of the two differ, they exchange the hashes
// of the parts of their states, and then the parts that differ: the entries of a few
// members. Each of the two learns what the other one knows. In each gossip round a
// node sends to one member, or to two while a change spreads. The leader sends to ten, because all
// others wait for its decisions.
//
// Two states of one era (see the section "Forgetting") are merged, and neither replaces the
// other: the merge is idempotent, commutative and associative, so eventually all nodes hold
// the same state, whatever the network does to the messages. The vector clock counts the changes
// of each node, so that two views can be compared.
//
// A state has converged when every member that is up or leaving has seen it, and none of these
// is unreachable ([View] has the exact rule). Then the leader moves members on: joining
// to up, leaving to exiting, exiting and down to removed. The leader is not
// elected: it is a function of the state.
//
// Every node sends heartbeats to a few others, the next ones on a hashed ring. It judges these peers by
// their answers, which are replies or, where two nodes watch each other, their own heartbeats, with a phi
// accrual failure detector or a deadline ([Profile]). If all or most of a node's peers fall silent at the
// same time, it suspects itself first. Being unreachable is reversible, and within the membership it only
// delays convergence. Being down is final: a [Downing] provider or an operator decides it, and the downed
// node stops as soon as it learns of that. Every node asks its own provider; the provider's rule determines
// which node decides for its side of a partition.
//
// A node is an address and an incarnation number. A process that comes back at
// the same address is another node; a heartbeat reply from the new incarnation
// is proof that the old one is gone.
//
// # Forming one cluster
//
// A [JoinVia] with the node's own address forms a cluster. If Config.DriverDecides is set, the only
// other way to form one is [Form]: the driver decides, see package bootstrap. If it is not set, two
// kinds of nodes may form a cluster by themselves:
//
//   - a node without other seeds, at once;
//   - the first seed, when it has heard of no cluster for Config.SeedTimeout, or for
//     Config.SeedNackTimeout if all other seeds have said that they know of none.
//
// Members announce the cluster to seed addresses that are not members, so restarted seeds
// find it.
//
// Nevertheless two clusters may exist, or two halves of one cluster that have declared each other
// down. When they meet, the senior side survives, and the nodes of the other side stop; they may be
// restarted as new incarnations. Of two clusters, the older cluster is senior. Of two halves, the
// half in the later era is senior, and in the same era the half that has the oldest member (see
// [Seniority]).
//
// The protocol follows Akka Cluster's (reference documentation, "Cluster Membership
// Service"). Three things differ: states of one era are merged unconditionally, clusters
// have a seniority, and a heartbeat reply is evidence of an incarnation.
//
// # Forgetting
//
// An [Era] is a period in the life of a cluster. Tombstones are forgotten by eras and not
// by a clock: once a node is removed, it can neither come back nor bring back others,
// however long it was paused or cut off.
//
// # What this does not do
//
// The package promises no agreement: during a partition both sides may lead and declare
// each other down, and views of different nodes differ for a while. Nothing
// that must happen at most once may rest on membership alone. The package sends
// nothing, reads no clock and keeps nothing on disk. It does not know who may
// join: the driver lets in only peers that it trusts.
//
// # Duties of the driver
//
//  1. One goroutine steps the machine, with the time of a monotonic clock. Every start
//     of the process has a new UID in Config.Self, and is a new incarnation.
//  2. [Start], or [JoinVia], comes first and once. A [Tick] comes every 50 to 100 ms,
//     after all messages that arrived before it: if it came first, peers whose heartbeats
//     wait in the process would look silent. Ticks before [Machine.Due] may be left out.
//  3. A message that arrives becomes [Receive], with From and To as they were sent, and
//     Waited, the time that it waited in the process. A message from a process that names
//     another cluster, or is not trusted, is refused and never stepped.
//  4. A [Send] is sent once, without waiting for the network. It may be lost, but must not go to any address
//     other than To's; UID 0 in To means any incarnation at that address.
//  5. Step [Evidence] that a node is gone only if a connection to the node was open, was ended by the other
//     side, and the next dial was refused.
//  6. Events are passed on in order. When an event is delivered, the [View] already
//     shows it.
//  7. After [SelfDowned] or [JoinFailed] the process stops. After [LeaveRequested] it
//     finishes what it must and then steps [Leave]; after [Left] it stops.
//  8. With a [Downing] that relies on a lease, step [Lease] whenever the holder of the lease, or the time
//     until which the holder may act, has changed. On [YieldLease] the process gives the lease up. From then
//     on it competes behind all other candidates: its rank is higher than theirs, and the candidate with the
//     lowest rank acquires a free lease (see package lease).
//
// Package agent is that driver. The loop to write:
//
//	out = m.Step(time.Now(), gossip.Start{}, nil)
//	for {
//		perform(out)
//		tick := false
//		select {
//		case <-inbox.signal:
//		case <-ticker.C:
//			tick = true
//		}
//		for _, in := range inbox.take() {
//			perform(m.Step(time.Now(), in, out[:0]))
//		}
//		if out = out[:0]; tick {
//			out = m.Step(time.Now(), gossip.Tick{}, out)
//		}
//	}
package gossip
