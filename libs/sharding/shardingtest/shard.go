package shardingtest

import "github.com/roost-cluster/roost/libs/sharding"

// ShardOf returns the index of the shard of an entity, among n shards of a type without a shard
// rule.
func ShardOf(id sharding.EntityID, n uint32) uint32 {
	return (&sharding.TypeDesc{Shards: n}).ShardOf(id).Index
}
