package entitytest

import "github.com/roost-cluster/roost/libs/sharding"

// ShardKey returns the text of an id that decides about the shard, by the rule of the type
// ([entity.Type.ShardBy]). Entities of a type with the same shard key are always in the same shard.
func (k *Kit) ShardKey(typ, id string) string {
	k.t.Helper()
	d, ok := k.descs[sharding.EntityType(typ)]
	if !ok {
		k.t.Fatalf("entitytest: the kit has no type %s", typ)
	}
	return d.Desc.Rule.Key(sharding.EntityID(id))
}

// WantOneShard fails the test unless the rule of the type keeps all these ids in one shard. Ids that
// are in one shard only because their hashes meet fail too: with another number of shards they would
// not be together.
func (k *Kit) WantOneShard(typ string, ids ...string) {
	k.t.Helper()
	for i := 1; i < len(ids); i++ {
		if first, other := k.ShardKey(typ, ids[0]), k.ShardKey(typ, ids[i]); first != other {
			k.t.Errorf("entitytest: %s/%s and %s/%s are not kept in one shard: by the rule of the type (ShardBy), %q decides about the one, and %q about the other",
				typ, ids[0], typ, ids[i], first, other)
		}
	}
}
