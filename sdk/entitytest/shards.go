package entitytest

import "github.com/roost-cluster/roost/sdk/entity"

// ShardKey returns the text of the entity's id that decides about the shard, by the rule of the type
// ([entity.ShardBy]). Entities of a type with the same shard key are always in the same shard.
func (e Entity) ShardKey() string { return e.kit.descs[e.addr.Type].Desc.Rule.Key(e.addr.ID) }

// Shard returns the index of the entity's shard.
func (e Entity) Shard() uint32 {
	desc := e.kit.descs[e.addr.Type].Desc
	return desc.ShardOf(e.addr.ID).Index
}

// WantOneShard fails the test unless the rule of the type keeps all these ids in one shard. Ids that
// are in one shard only because their hashes meet fail too: with another number of shards they would
// not be together.
func (k *Kit) WantOneShard(of entity.Definition, ids ...string) {
	k.t.Helper()
	for i := 1; i < len(ids); i++ {
		first, other := k.Entity(of, ids[0]), k.Entity(of, ids[i])
		if first.ShardKey() != other.ShardKey() {
			k.t.Errorf("entitytest: %s and %s are not kept in one shard: by the rule of the type (ShardBy), %q decides about the one, and %q about the other",
				first.addr, other.addr, first.ShardKey(), other.ShardKey())
		}
	}
}
