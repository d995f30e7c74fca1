// Package sharding holds the basic types of Roost: the names of entities, shards, nodes
// and epochs, the command envelope, and the records that the journal's fence protects.
// It imports no other package of Roost, and every package that speaks of shards uses
// it.
//
// # Shards
//
// An entity is addressed by type and id. [ShardOf] maps the id to one of n shards of its type:
// xxh64(id) mod n, with seed 0 and the id's UTF-8 bytes. n is stored in the journal when the
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
