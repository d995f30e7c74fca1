// Package allocation decides which region hosts a shard, and which shards
// should move so that regions carry equal numbers of them. A [Strategy] is a
// pure function of a [View]: no clock, no randomness, no memory.
//
// # One view per entity type
//
// A view holds the regions that host one entity type, and per region the
// shards of that type alone, in the order in which they were allocated. The
// coordinator asks once per type, so each type is spread evenly by itself:
// ten shards of a busy type never hide behind ten of an idle one.
//
// # Order of suitability
//
// Regions are compared, best first: not leaving before leaving, newer app
// version before older, fewer shards before more; what is still equal keeps
// the order of the view. Callers that want the same answer from the same
// facts therefore list regions in a fixed order, for example by
// [sharding.NodeID.Compare].
//
// # Strategies
//
// [LeastShards] moves up to a limit of shards per round towards the average,
// and then evens out the rest; it is the algorithm of Akka 2.6.10 and later.
// [Threshold] is the one before it: a few shards from the fullest region to
// the emptiest, while they differ by more than a threshold. [New] picks one by
// name: allocation.strategy of the coordinator.
//
// # What this does not do
//
// It moves nothing, and it does not know how busy a shard is. It does not
// drain a leaving region; the coordinator hands its shards off one by one and
// asks Allocate for each. It does not wait: when Rebalance says nothing because
// the cluster is unsettled, the caller asks again later.
package allocation
