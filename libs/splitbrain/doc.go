// Package splitbrain decides which members stay when members of a cluster cannot reach
// each other: a [Resolver] is a [gossip.Downing] that lets at most one side of a partition
// continue. With lease-majority there is one exception, see the section "The lease". The
// members of the other sides down themselves. So do members that are indirectly connected,
// see the section "When it decides".
//
// # Strategies
//
//	static-quorum   keeps the side with at least a given number of members; downs all if
//	                there are so many members that two sides could have that number
//	keep-majority   keeps the larger side; of two equal sides, the one with the lowest address
//	keep-oldest     keeps the side of the oldest member, unless it is alone there
//	lease-majority  keeps the side that holds a lease
//	down-all        keeps none
//
// Static-quorum, keep-majority and keep-oldest can be restricted to members of one role. They use
// only the membership, and that has a price: they cannot distinguish a crash from a partition. When
// members crash, the remaining members are downed too if, depending on the strategy, fewer than the
// quorum remain, more than half have crashed, or the oldest member has crashed together with others.
// A lease tells a crash from a partition, so lease-majority is preferable where there is a store for
// the lease.
//
// # When it decides
//
// A decision is made when nothing has changed for StableAfter: by then all nodes of a side
// see the same. Two kinds of changes restart this wait:
//
//   - any node reports something else about the reachability of others;
//   - a member becomes up, exiting or down, or becomes reachable or unreachable.
//
// Members that join, begin to leave or are removed do not count. Nor does time during which this
// process was paused count towards StableAfter. If reachability keeps changing for longer than
// StableAfter and DownAllWhenUnstable together, every member downs itself; with lease-majority, the
// lease then decides without waiting any longer.
//
// The leader of a side decides for it (with lease-majority a coordinator, see below). All
// members run the resolver all the time, because each must know for how long nothing has
// changed when it becomes the decider. Both sides must come to consistent results
// although they may have different information. So members that are joining, weakly up,
// exiting or down are not counted; and with keep-majority and keep-oldest, a side decides
// doubtful cases against itself: it does not count its own members that may be leaving,
// counts members of the other side that may have come up, and stays only if it still wins.
//
// An observation reports that one node, its observer, cannot reach another, its subject. A node is
// indirectly connected if some of its links are cut, and others still carry gossip. There are two signs of
// that:
//
//   - The node is the observer of one observation and the subject of another one.
//   - The node is the observer or the subject of an observation, and the subject has seen a state
//     that already contains this observation. So gossip of the observer still reaches the
//     subject, at least through other nodes. Then the observer and the subject are both indirectly
//     connected.
//
// All indirectly connected nodes are downed; the strategy decides about the others.
//
// # The lease
//
// Lease-majority uses a lease that exists for another purpose: some members (LeaseRole) compete for it all
// the time. In the services it is the lease of the active coordinator. The side of its holder stays. It is
// decided as follows:
//
//   - A coordinator knows the record of the lease: its holder, and whether it
//     is still renewed. The reachable coordinator with the lowest address decides for
//     its side, even if it is not the leader: if the holder is on its side, the
//     unreachable members are downed, otherwise its own side is. Other members do
//     nothing while a coordinator is reachable.
//   - An expired lease decides nothing: its holder may have died, and another coordinator
//     may be about to acquire it. The decider looks again at the next tick.
//   - A side without a coordinator cannot hold the lease. But perhaps there is no partition,
//     and all coordinators have crashed or restart. Then this side should continue. It does
//     no harm meanwhile, because effects of journaled entities are fenced. So it does not
//     down itself at once. When the membership is stable, it waits for LeasePatience, by
//     default 5 min, and downs itself if it has reached no coordinator by then.
//   - A side whose coordinators cannot read the record, or find the lease without a holder, waits for the
//     same time and then downs itself.
//
// By these rules the remaining members continue after the crash of the active coordinator
// (a standby acquires the lease), of all standbys (the holder is still there), or of all
// regions but one (the coordinators are still there).
//
// Two sides cannot hold the lease at the same time, but they can hold it one after the
// other. This is the exception in which both stay. Side A holds the lease, and downs the
// members of side B. Before B has decided, the holder dies. A coordinator of B acquires the
// lease, so B stays too. Usually A then ends: the dead holder is an unreachable member of A, so
// A decides again. Either A has no coordinator left, or its coordinator sees that the lease is
// held by a node that A has downed. So A downs itself, at the latest when LeasePatience has
// passed. But the holder may be restarted at its address before that, and join A again. Then
// no member of A is unreachable, and A decides nothing: both sides stay until they reach each
// other.
//
// A free lease should not simply go to the fastest candidate: a candidate with [InMinority] true waits for
// [MinorityDelay] before it acquires the lease ([LeaseRank]).
//
// Nor should the lease stay with a minority. A member that holds the lease when it becomes
// part of a minority must give it up after YieldLeaseAfter ([gossip.YieldLease]) if there
// are candidates on the other side, so that the larger side stays. A member that acquires
// the lease in a minority keeps it: the others had time to acquire it.
//
// Once a side may have decided by the lease, the lease must not move any more, or both sides would stay.
// Three times follow one another. A holder in a minority gives the lease up after YieldLeaseAfter. It no
// longer does so once nothing has changed for (YieldLeaseAfter + StableAfter) / 2. A side may decide
// only when nothing has changed for StableAfter, which is later. The holder also keeps the lease when
// reachability has kept changing for so long that lease-majority is about to decide although nothing is
// stable.
//
// The strategies and their rules come from Akka's Split Brain Resolver (reference documentation, "Split
// Brain Resolver"); which member reads the lease, and when, is our own. Differences are listed in
// testdata/deviations.md.
//
// # What this does not do
//
// It does not make membership consistent. Both sides go on working until the decision, and a losing
// side continues until the decision is carried out there. Nothing that must happen at most once may
// depend on it; for journaled entities the fence guarantees that. Volatile entities have no fence:
// a volatile entity on a side without coordinators may live at the same time as its successor on
// the other side. The successor starts after StableAfter, and the old one ends at most about
// LeasePatience later. The package does not protect against partitions that change faster than
// gossip, against members with different settings, or against operators who down the wrong side. It
// restarts nothing; that is a supervisor's task.
//
// # Duties of the driver
//
// A [Resolver] is driven by the [gossip.Machine] that has it as Config.Downing: the machine calls Decide,
// downs the members that it returns, and emits [gossip.YieldLease]. The process must do the rest:
//
//  1. Every member has the same strategy and the same settings; the membership compares
//     them when a node joins.
//  2. The driver of the machine performs its duties: Ticks come all the time, and
//     [gossip.SelfDowned] ends the process. A supervisor starts it again.
//  3. With lease-majority, every member with LeaseRole competes for the lease with the rank that [LeaseRank]
//     gives. It sets the rank again at every change of the membership or of the holder, and steps
//     [gossip.Lease] whenever its knowledge of the record changes.
//  4. On [gossip.YieldLease] a member with LeaseRole sets its rank again, then gives the lease up.
//
// What to write:
//
//	downing, err := splitbrain.New(config)
//	g.Downing = downing // of the gossip.Config
//	...
//	case gossip.YieldLease:
//		keeper.SetRank(splitbrain.LeaseRank(agent.Members(), role, self, holder, rankDelay))
//		keeper.Yield()
package splitbrain
