// Package bootstrap decides how a process finds its cluster: it joins an existing
// one, or forms one together with others that are starting too. Exactly one of
// them may form it. The package is a pure state machine, [Machine].
//
// # How it works
//
// Discovery lists contact points: addresses at which other nodes may be. Every
// node probes all of them, itself included, at intervals: which node are you, and
// which members of a cluster do you know ([Answer])? A node that hears of members
// joins through them, and then names them in its own answers.
//
// If no contact point knows of a cluster, the node with the lowest address may
// form it. It does so only when enough contact points of the right role have
// answered, none of those listed is silent, and the list has not changed for a
// while: then all others see the same, and wait for it. [LowestAddress] is that
// rule; another [JoinDecider] can replace it.
//
// The process follows Akka Management's Cluster Bootstrap, with three differences.
// Nodes are identified and ordered by the address that they advertise, so that a
// node listed under two names counts once and all agree on the order. The age of
// an answer counts from its probe. Two processes that advertise the same address
// prevent the forming of a cluster.
//
// # What this does not do
//
// It sends no probes and joins nothing itself: a driver does. It guarantees a
// single cluster only if the required number of contact points is the real number
// of nodes that form it. With a lower one there can be two, if discovery shows
// different lists to different nodes for longer than the stable margin.
package bootstrap
