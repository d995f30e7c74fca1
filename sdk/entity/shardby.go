package entity

import (
	"errors"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ShardRule selects the part of an id that determines the shard of an entity, see [Type.ShardBy].
type ShardRule = sharding.ShardRule

// Prefix is the rule of the text before the first separator: by Prefix("/"), "customer-17/order-5"
// is in the shard of "customer-17". An id without the separator counts whole.
func Prefix(separator string) ShardRule { return ShardRule{Separator: separator} }

// Part is the rule of one of the parts into which a separator divides an id, counted from 0: by
// Part("-", 1), "eu-17-a" is in the shard of all ids whose second part is "17". An id that does not
// have so many parts counts whole. Part 0 is the same as [Prefix].
func Part(separator string, index int) ShardRule { return ShardRule{Separator: separator, Part: index} }

// ShardBy selects the part of an id that determines the shard, so that entities that belong together are in
// one shard, and thus in one region: ids with the same prefix or part. Without it the whole id decides. The
// rule is fixed forever with the type's first use, as the number of shards is: a type that has entities
// without a rule, or with another one, needs a new name.
//
// Entities of several types are in shards with the same index if the rules select the same text of their
// ids and the types have the same number of shards. The strategy consistent-hashing keeps such shards in
// one region.
//
// A shard is the unit that moves: all entities with one prefix stay in one shard, however many they are.
// Choose a part with many more values than there are shards.
func (t *Type[E]) ShardBy(rule ShardRule) *Type[E] {
	if rule.Separator == "" {
		t.def.complain(errors.New("ShardBy has an empty separator, which divides no id; name one, or leave ShardBy out"))
	} else if err := rule.Check(); err != nil {
		t.def.complain(err)
	}
	t.def.rule = rule
	return t
}
