// Package allocation decides which region hosts a shard, and which shards
// should move so that regions carry equal numbers of them. A [Strategy] is a
// pure function of a [View]: no clock, no randomness, no memory.
//
// # One view per entity type
//
// A view has the regions that host one entity type, and for each region its shards of
// that type, in the order in which they were allocated. The coordinator calls the
// strategy once per type, so the shards of each type are spread evenly. If all types were
// counted together, one region could have all shards of a busy type, and another one all
// those of an idle type.
//
// # Order of suitability
//
// Regions are sorted, best first: those that stay come before those that leave. Among these,
// regions with fewer shards come before those with more. Equal regions keep the order of the
// view. For deterministic results, callers must list regions in a fixed order, for example
// by [sharding.NodeID.Compare].
//
// A strategy knows nothing of versions of the application. In a rollout the coordinator shows
// it only those regions that a shard should go to, and does not ask it to rebalance.
//
// # Strategies
//
// [LeastShards] moves shards in rounds, and in each round at most a given number of them. As
// long as some regions have more shards than the average, rounded up, it takes these shards
// from them. Afterwards it takes one shard each from regions with that average, for regions
// that lack two or more. It is the algorithm of Akka 2.6.10 and later.
// [Threshold] is Akka's earlier one: it moves a few shards from the region with most to
// the one with fewest, while they differ by more than a threshold. [New] returns one by
// name, the coordinator's allocation.strategy.
//
// # What this does not do
//
// The package moves nothing, and does not know how busy a shard is. It does not drain a
// leaving region: the coordinator hands off the region's shards one by one, and calls
// Allocate for each. It does not wait: if Rebalance returns nothing because the cluster is
// unsettled, the caller must call it again later.
package allocation
