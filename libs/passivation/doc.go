// Package passivation decides which entities leave memory. A [Policy] is a plain value: it receives
// the touched entities and the time, and returns the entities to passivate. It has no clock and no
// goroutine.
//
// # Strategies
//
// A [Strategy] has up to four parts. [Strategy.Idle] passivates entities that have had nothing to
// do for a time. [Strategy.Limit] bounds how many entities are active in a region. [Strategy.Main]
// chooses which entity is passivated at the limit: the least recently used one (LRU, which may have
// segments), the most recently used one (MRU), or the least frequently used one (LFU, which may
// have dynamic aging). [Strategy.Admission] makes the strategy a composite: new entities come into
// a small window first. From there an entity gets into the main area only if it was touched more
// often than the entity that it would replace (W-TinyLFU). How often an entity was touched is
// estimated by a *sketch*, for active entities and for others. A sketch is a few rows of small counters
// (a count-min sketch). [Filter] sets the number of its rows and counters. The function [Composite]
// returns a composite strategy whose values have proven good, and whose window adapts to the load.
//
// [Parse] reads a strategy from a configuration, [Strategy.Validate] checks one that code
// has built, and [Strategy.String] writes it.
//
// # One limit for a region
//
// A region has one Policy for each entity type. Its limit is divided equally among the
// open shards of the type, so every shard has its own list, and one shard's load does not
// passivate the entities of others. When a shard opens, the parts of the other shards shrink at
// once.
//
// Entities differ in size, so a limit on their number does not limit their memory. While the live
// heap of the process is above a number of bytes, a [Bound] limits the number of active entities,
// and [Policy.Shrink] passivates entities beyond it, even if the strategy has no limit. Later the number
// grows again. If the working set does not fit into the memory, entities are then loaded again and
// again.
//
// # Entities are numbers
//
// The caller gives each entity a small number, so a touch looks nothing up. What a
// policy keeps for an entity is in [EntityTable], by number: 44 bytes. The sketch of a composite
// takes 8 to 16 bytes more for each entity that the limit allows. After the first
// use of a number, touches of it allocate no memory.
//
// # What this does not do
//
// It stops nothing. The caller stops an entity that the policy has chosen, once the entity is idle,
// and keeps the commands that arrive meanwhile. From the choice on, the policy treats the entity as
// not active. If a command comes before the entity has stopped, the caller touches the entity
// again. If the policy then keeps the entity, it need not be stopped.
//
// An entity that waits for a timer, for example, must not be passivated. The caller takes it out by
// [Policy.Removed], and touches it again later; in between it does not count towards the limit.
//
// # Differences from Akka
//
// The strategies are the same as in Akka Cluster Sharding, and Pekko's published cases and traces
// give the same results here, to the last passivation. What differs on purpose:
//
//   - The idle time begins when the entity has done its command ([Policy.MarkIdle]), and not when the
//     command arrives: a command that takes longer than the idle time is not a reason to passivate.
//   - An idle entity is passivated when its idle time is over ([Policy.NextExpiry] returns that
//     time). Akka checks at regular intervals, so it may passivate up to half of the idle time
//     later. An entity that was idle for exactly the configured time is passivated, too.
//   - If a limit is smaller than the number of open shards, each shard may have one
//     entity. In Akka it may have none, and every command loads its entity again.
//   - The window or main area of a composite has no entity if its part of the limit is
//     0. In Akka an area with MRU or LFU then has one, beyond the limit.
//   - In a composite, the entities that were idle for longest are passivated first. In Akka,
//     idle entities of the window are passivated first.
//   - The hash functions of a sketch are the same for every [Filter]. Akka uses them for its
//     default filter only, and different ones for all other filters. The hash of the id comes from
//     the caller.
//   - A new shard's sketch is made with the first touch, and for the shard's part of the
//     limit; Akka makes it for the whole limit at first. Like Akka, a shard begins to count
//     anew whenever its part of the limit changes, and whenever another shard opens or
//     closes.
//   - The number of accesses that LFU counts stops at 4,294,967,295.
//   - Setting a limit to the value that it already has changes nothing. In Akka the sketch begins
//     anew.
package passivation
