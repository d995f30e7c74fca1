// Package bootstrap decides how a process finds its cluster: it joins an existing
// one, or forms one together with others that are starting too. Exactly one of
// them may form it. The package is a pure state machine, [Machine].
//
// # How it works
//
// Discovery lists contact points: addresses at which other nodes may be. Every
// node queries all of them, itself included, at intervals: which node are you, and
// which members of a cluster do you know ([Answer])? A node that learns of members
// joins through them, and then names them in its own answers.
//
// If no contact point knows of a cluster, the node with the lowest address may form one. It
// does so only when
//
//   - enough contact points of the right role have answered,
//   - no listed contact point of that role is silent (unless Config.ContactAll is off), and
//   - the list has not changed for a while (the stable margin, Config.StableMargin).
//
// By then all others see the same list, and wait for this node. [LowestAddress] is that
// rule; another [JoinDecider] can replace it.
//
// All of this follows Akka Management's Cluster Bootstrap, with three differences.
// Nodes are identified and ordered by the address that they advertise, so that a
// node listed under two names counts once and all agree on the order. The age of
// an answer is the time since its query was sent. Two processes that advertise the same address
// prevent the forming of a cluster.
//
// # What this does not do
//
// It sends no queries and joins nothing itself: a driver does. It guarantees a single
// cluster only if the required number of contact points is the real number of nodes that
// form it. With a lower number two clusters can form, if discovery shows different lists
// to different nodes for longer than the stable margin.
//
// # Duties of the driver
//
//  1. One goroutine steps the machine, with the time of a monotonic clock; [Start] comes
//     first and once. A [Tick] comes at least twice per QueryInterval.
//  2. Before each Tick, step the machine with the result of discovery: [Discovered] if the latest lookup
//     succeeded, [LookupFailed] if it did not, and neither of them until the first lookup has ended. An old
//     list must not be passed off as the result of a lookup that failed. Before all of these, step the answers
//     to queries that have arrived.
//  3. A [Query] runs concurrently with the loop and is bounded by QueryTimeout. It is answered once, by
//     [Answered] or [QueryFailed] with the address that the Query has.
//  4. The node answers all queries, its own included, with what [AnswerOf] returns for the
//     current view of its membership. It does so from before Start until the process ends.
//  5. [JoinSeeds] and [FormCluster] are passed on to the membership at once and in order;
//     FormCluster forms nothing if the node is in a cluster, or is being admitted to one.
//  6. Step [Joined] when the membership reports that the node is in a cluster, and only then. After [Finished]
//     the driver passes what discovery lists to the membership, which announces the cluster there; after
//     [GaveUp] the process stops.
//
// Package discovery/joiner is that driver. The loop to write:
//
//	out = m.Step(time.Now(), bootstrap.Start{}, nil)
//	for !done(out) {
//		perform(out)
//		select {
//		case in := <-answers:
//			out = m.Step(time.Now(), in, out[:0])
//		case <-ticker.C:
//			out = out[:0]
//			if in := lookup(); in != nil { // Discovered or LookupFailed; nil: none has ended yet
//				out = m.Step(time.Now(), in, out) // after all answers
//			}
//			if membership.InCluster() {
//				out = m.Step(time.Now(), bootstrap.Joined{}, out)
//			} else {
//				out = m.Step(time.Now(), bootstrap.Tick{}, out)
//			}
//		}
//	}
package bootstrap
