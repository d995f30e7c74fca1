// Package allocation decides which region hosts a shard, and which shards should move. All
// of it is pure functions of what the coordinator knows: no clock, no randomness, no memory.
//
// # How a choice is made
//
// A [View] has all regions that host one entity type, with their shards of that type, oldest
// allocation first. [Candidates] narrows it to the regions that may be given a certain shard.
// A [Strategy] then chooses one of them. So a strategy need not know the constraints, and
// every choice keeps them: the first one for a shard, the one after its owner is lost, and a
// planned move.
//
// There is one view per entity type, because types are spread separately. If all types were
// counted together, one region could have all shards of a busy type, and another one all
// those of an idle type. What a region has of other types is in the view too, as numbers:
// its shards (Total) and its load (Load).
//
// # Constraints
//
// Only a region that is up and reachable and reads every form in which something may be
// stored in the shard can serve it. That is never broken. The other constraints are, the most
// important one first: capacity, pin, cordon and zone. A placement that breaks one of them is chosen
// only if a placement at any other region would break the same one, or a more important one. The
// constraints that had to be broken are returned ([Broken]), to be shown.
//
//   - capacity: a region says how many shards of all types it wants at most.
//   - pin: an operator, or a program, wants a shard at the region with this name.
//   - cordon: an operator wants the region to get no more shards. It keeps those it has.
//   - zone: no zone has more of a type's shards than its share, by the capacities of its
//     regions, rounded up. So the loss of a zone takes no more than that.
//
// # Order of suitability
//
// Strategies that count shards order regions by suitability, best first: those that stay come
// before those that leave; then those with fewer shards of the type; then those with fewer
// shards of all types. Equal regions are taken in the order of the view, which must be fixed,
// for example by [sharding.NodeID.Compare]. This order is cyclic: where it starts depends on
// the type, so that many types with one shard each do not meet on one region.
//
// A strategy knows nothing of versions of the application, although the view shows them for
// strategies of one's own. In a rollout the coordinator narrows the view to those regions that
// a shard should go to, and does not plan.
//
// # Strategies
//
// [New] returns one by its name, the coordinator's allocation.strategy:
//
//   - least-shards, [LeastShards], moves shards in rounds, and in each round at most a given
//     number of them. As long as some regions have more shards than the average, rounded up, it
//     takes the surplus from them. After that, regions that have exactly the rounded average give
//     one shard each to regions that have at least two fewer than that. It is the algorithm of
//     Akka 2.6.10.
//   - threshold, [Threshold], is Akka's earlier one: it moves a few shards from the region
//     with most to the one with fewest, while they differ by more than a threshold.
//   - consistent-hashing, [ConsistentHashing], puts a shard by its index on a ring of regions.
//     Shards of several types with the same index are at the same region. The ring is that of
//     Akka, with its hash; regions are on it by their names. The number of shards of
//     a region is bounded: shards above the bound go to the next region on the ring.
//   - load, [LeastLoad], compares regions by the load of all their shards, and moves shards
//     off those that have more than the average and a tolerance.
//   - external, [External], leaves it to a program, which pins shards.
//
// The first three look only at the shards of the type. The strategy "load" looks at all shards of
// a region: it balances regions, not types.
//
// # Plans
//
// [Plan] decides for all types at once what should move now, and where to. Nothing moves
// while a region is unreachable or joining, or while the coordinator forbids it ([View.Settled]).
// A plan first repairs each broken constraint that another placement would keep: shards that are
// not where they are pinned, more shards than the capacity, more than the share of a zone. Then
// the plan asks the strategy. Each move is chosen as if the moves before it were already made.
// A shard moves only if no constraint that it satisfies at its owner would be broken at the chosen
// region. Planning
// ends: if all moves are made and nothing else changes, a plan is empty in the end.
//
// [CheckMove] and [CheckPlan] check the same rules by other code. The coordinator checks each
// move with them when it is about to begin, as the cluster has changed since it was planned.
//
// # What this does not do
//
// The package moves nothing, measures nothing and remembers nothing: how long ago a shard has
// moved is in the view ([ShardLoad]). It does not empty a leaving region: the coordinator
// hands off the region's shards one by one, and chooses a new owner for each. It does not
// wait: if the cluster is unsettled, the caller must plan again later.
package allocation
