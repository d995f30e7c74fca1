// Package splitbrain decides who stays when members of a cluster cannot reach
// each other: a [Resolver] is a [gossip.Downing] that lets at most one side of
// a partition go on. The other sides down themselves, and with them whoever is
// connected only indirectly.
//
// # Strategies
//
//	static-quorum   the side with at least a number of members; all go if there are
//	                so many members that two sides could have it
//	keep-majority   the larger side, of equal ones that with the lowest address
//	keep-oldest     the side with the oldest member, unless it is alone there
//	lease-majority  the side that holds a lease
//	down-all        none
//
// Static-quorum, keep-majority and keep-oldest can count members of one role
// alone. They need nothing but the membership, and pay for it: after the crash
// of more than half of the members, or of all but the oldest's own side, the
// rest goes too, since it cannot tell a crash from a partition. The lease can,
// which makes lease-majority the strategy to prefer where there is a store to
// keep one.
//
// # When
//
// Nothing is decided before membership and reachability, by every single observer,
// have not changed for StableAfter: by then all nodes of a side see the same. Joining, leaving and
// being removed do not count as changes. Time for which this process was
// paused does not count as time. When reachability never becomes stable, all
// go after a while (DownAllWhenUnstable), every node by itself.
//
// The leader of a side decides for it; with lease-majority somebody else, see
// below. All members are asked all the time, since they have to know for how
// long nothing has changed when it is their turn. Both sides must come to the same result
// although they may have heard different news: members that are joining,
// weakly up, exiting or down are not counted; and before a side stays, it counts
// itself as small and the other as large as they may be by now (keep-majority,
// keep-oldest).
//
// Nodes that are both observer and subject of unreachability, and the ends of an
// observation whose subject has seen it, are connected indirectly: some links
// are cut, others carry the gossip about it. All of them go, then the strategy
// decides about the rest.
//
// # The lease
//
// With lease-majority the lease is one that some members (LeaseRole) compete
// for anyway, all the time; in the services it is that of the active
// coordinator. The side of its holder stays. Who decides:
//
//   - A coordinator knows the record of the lease: its holder, and whether it
//     is still renewed. The first reachable coordinator by address decides for
//     its side, whoever leads: the holder is with us, so the unreachable go; or
//     it is not, so we go. Others do nothing while a coordinator is reachable.
//   - A lease that is over says nothing. Its holder may have died, and a
//     standby is about to acquire it; the next tick will tell. So the crash of
//     the active coordinator, of all other coordinators, or of all regions but
//     one leaves the rest running.
//   - A side without a coordinator cannot hold the lease. But it also sees what
//     it would see if all coordinators had died or are started anew, and then
//     it should go on: effects of journaled entities are fenced, so it does no
//     harm, and what it serves stays available. So it waits for LeasePatience,
//     by default 5 min, and goes if it has not met a coordinator by then.
//   - A side whose coordinators cannot read the record, or see nobody hold it,
//     waits for as long, and goes.
//
// Two sides cannot hold the lease at the same time, but one after the other
// they can: if the holder dies between the decisions of two sides, both may
// have won. The first one has no coordinator then, and goes after LeasePatience.
//
// A free lease is not for whoever is fastest: who is [InMinority] leaves it to
// others for [MinorityDelay].
//
// Nor does it stay where it happens to be. A member that held it when it fell into
// a minority is to give it up after YieldLeaseAfter ([gossip.YieldLease]), if there
// are candidates on the other side, and so the larger side stays. Whoever acquires
// it in a minority keeps it: the others had their chance. Once a side may have
// decided by the lease it must not move any more, or both would stay; so nothing
// is given up from halfway between YieldLeaseAfter and StableAfter on, nor when all
// has been unstable for so long that the lease will decide at once.
//
// The strategies and their rules are those of Akka's Split Brain Resolver
// (reference documentation, "Split Brain Resolver"); by whom and when the lease
// is read is ours. Differences are listed in testdata/deviations.md.
//
// # What this does not do
//
// It does not make membership consistent: until the decision, and on a losing
// side until it is carried out, both sides work. Nothing that must happen at
// most once may rest on it; for entities with a journal the fence does that.
// Volatile entities have no fence: one on a side of regions alone may live
// beside its successor for up to StableAfter and LeasePatience. It does not
// protect from partitions that change faster than gossip, from members with
// different settings, nor from operators who down the wrong side. It does not
// start anything again; a supervisor must.
package splitbrain
