// Package allocation decides which region hosts a shard, and which shards should move. All functions
// are pure: they use only what the coordinator knows, and no clock, randomness or memory.
//
// # How a choice is made
//
// A [View] has all regions that host one entity type. For each region it lists the shards of that
// type, oldest allocation first. [Candidates] narrows the view to the regions that may get a certain
// shard. A [Strategy] then chooses one of these regions. So a strategy need not know the constraints,
// and every choice satisfies them: a first allocation, an allocation after the loss of the owner, and
// a planned move.
//
// There is one view per entity type, because each type is spread separately. If all types were
// counted together, one region could have all shards of a busy type, and another region all
// shards of an idle type. The view also has numbers over all types for each region: the number of its
// shards (Total) and its load (Load).
//
// # Constraints
//
// A region can serve a shard only if the region is up and reachable, and reads every form that may be
// stored in the shard. This constraint is never broken. The other constraints are capacity, pin,
// cordon and zone. Capacity is the most important of them, and zone the least. A placement that breaks
// a constraint is chosen only if every other placement breaks the same constraint, or a more important
// one. A choice returns the constraints that it had to break ([Broken]), so that operators see them.
//
//   - capacity: a region has set a capacity, and has at most this many shards, counted over all types.
//   - pin: a shard is at the region that an operator, or a program, has pinned it to.
//   - cordon: a region that an operator has cordoned gets no more shards. It keeps its present shards.
//   - zone: no zone has more than its share of a type's shards. If all regions have set a
//     capacity, the share follows from the capacities of the zone's regions. Otherwise, every region
//     counts for an equal part of all shards, but a region whose capacity is less than this part counts
//     for its capacity only, and the others divide the rest. For example, the only type has 58 shards,
//     and each of three zones has one region, one of them with the capacity 10: the shares are 10, 24 and
//     24. The share is rounded up. So the loss of a zone affects at most that share.
//
// # Order of suitability
//
// Strategies that count shards order regions by suitability, best first. Regions that stay come
// before regions that leave. Then regions with fewer shards of the type come first, and then regions
// with fewer shards of all types. Equal regions are taken in the order of the view. That order must
// be fixed, for example by [sharding.NodeID.Compare]. The order is cyclic, and its start depends on
// the type. So if many types have one shard each, these shards are not all at one region.
//
// The strategies of this package ignore the version of the application. The view shows it for
// strategies that users write. During a rollout, the coordinator narrows the view to the regions that
// should get the shard, and makes no plans.
//
// # Strategies
//
// [New] returns a strategy by its name, which is the value of the coordinator's key
// allocation.strategy:
//
//   - least-shards, [LeastShards], moves shards in rounds, and in each round at most a given number
//     of shards. While some regions have more shards than the average, rounded up, it moves the
//     surplus away. After that, a region that has exactly the rounded average gives one shard to a
//     region that has at least two shards fewer. It is the algorithm of Akka 2.6.10.
//   - threshold, [Threshold], is the earlier algorithm of Akka. While the regions with the most and
//     the fewest shards differ by more than a threshold, it moves a few shards between the two.
//   - consistent-hashing, [ConsistentHashing], places a shard by its index on a ring of regions. If shards of
//     several types have the same index, they are at the same region. The ring and its hash are the same as
//     Akka's. A region's place on the ring follows from its name. The number of shards of a region is
//     bounded: shards above the bound go to the next region on the ring.
//   - load, [LeastLoad], compares regions by the load of all their shards. If a region's load exceeds
//     the average by more than a tolerance, the strategy moves shards away from it.
//   - external, [External], moves nothing itself. A program places the shards by pins.
//
// The first three strategies look only at the shards of one type. The strategy "load" looks at all
// shards of a region: it balances regions, not types.
//
// # Plans
//
// [Plan] decides, for all types at once, which shards should move now, and their new regions. Nothing moves
// while a region is unreachable or joining, or while the coordinator forbids moves ([View.Settled]). If
// another placement would satisfy a broken constraint, a plan first repairs that constraint: a pin, a
// capacity, or the share of a zone. Then the plan asks the strategy. Each move is chosen as if the earlier
// moves of the plan were already made. A shard moves only if the move breaks no constraint that the shard
// satisfies at its owner. Planning terminates: if all moves are made and nothing else changes, later plans
// become empty.
//
// [CheckMove] and [CheckPlan] check the same rules by other code. When a move is about to begin, the
// coordinator checks it again by [CheckMove], because the cluster may have changed since the plan.
//
// # What this does not do
//
// The package moves nothing, measures nothing and remembers nothing. Whether a shard has moved only
// recently is in the view ([ShardLoad]). The package does not empty a leaving region: the coordinator
// hands off the region's shards one by one, and chooses a new owner for each. The package does not
// wait: if the cluster is unsettled, the caller must plan again later.
package allocation
