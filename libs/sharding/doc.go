// Package sharding holds the basic types of Roost: the names of entities, shards, nodes
// and epochs, the command envelope, and the records that the journal's fence protects.
// It imports no other package of Roost, and every package that speaks of shards uses
// it.
//
// # Shards
//
// An entity is addressed by type and id. [TypeDesc.ShardOf] returns its shard, one of n shards of its
// type: xxh64(key) mod n, with seed 0. The key is the id, in UTF-8. If the type has a shard rule, the
// key is the part of the id that this rule takes. The number n is stored in the journal when the
// type is first declared, and never changes. testdata/shardof.txt has test vectors for
// implementations in other languages.
//
// # Epochs
//
// A region serves a shard at an [Epoch]. The coordinator hands out epochs, each strictly higher
// than every earlier one of that shard; the journal refuses every operation whose epoch is below
// the last claimed epoch. Routing is advisory; the fence is enforced.
//
// # What this does not do
//
// Nothing here talks to a network, a disk or a clock, and nothing decides who
// owns a shard.
package sharding
