// Package bootstrap decides how a process finds its cluster: join one that
// exists, or form one together with others that are starting too, of which
// exactly one may begin. It is a pure state machine, [Machine].
//
// # How it works
//
// Discovery lists contact points: addresses at which other nodes may be. Every
// node asks all of them, itself included, again and again: who are you, and
// which members of a cluster do you know ([Answer])? Whoever hears of members
// joins through them, and then names them itself, so that the news spreads.
//
// If nobody knows of a cluster, one node may form it: the one with the lowest
// address. It does so only when enough contact points of the right role have
// answered, all of them have, and the list has not changed for a while: then
// all others see the same, and wait for it. [LowestAddress] is that rule; another
// [JoinDecider] can take its place.
//
// The process follows Akka Management's Cluster Bootstrap. Three things are
// ours: nodes are told apart and put in order by the address that they give
// themselves, so that a node listed under two names counts once and all agree on
// the order; an answer is as old as its question; and two processes that give
// themselves the same address stop the forming of a cluster.
//
// # What this does not do
//
// It asks nobody and joins nothing itself: a driver does. It promises one
// cluster only while the required number of contact points is the real number
// of nodes that form it; with a lower one, a discovery that shows different
// nodes to different nodes for longer than the stable margin can lead to two.
package bootstrap
