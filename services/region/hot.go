package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/heavyhitters"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Operators can see which shards and entities are hot. The answer comes from memory. Nothing is decided
// by it, and method Hottest changes nothing.

// HotEntity is one of the entities that use most of a shard core.
type HotEntity struct {
	heavyhitters.Entry
	Shard sharding.ShardID
}

// Hottest returns the shards and the entities that use most of this core. They are of the given type; if
// it is empty, of all types. The limits say how many of each are returned at most. The shards are in the
// order of their ids; the heaviest entity comes first.
func (m *ShardCore) Hottest(now time.Time, of sharding.EntityType, shards, entities int) (heavy []control.ShardLoad, hot []HotEntity) {
	if shards > 0 {
		list := heaviest{most: shards}
		for st := range m.turn.ShardStats() {
			if h := m.shard(st.Shard); h != nil && h.phase == serving && (of == "" || of == st.Shard.Type) {
				meter := h.meter // a copy
				list.add(control.ShardLoad{Shard: st.Shard, Load: meter.measure(now, m.cfg.LoadHalfLife, &st)})
			}
		}
		heavy = list.end().Shards
	}
	for _, e := range m.turn.Hottest(now, entities, func(e sharding.Entity) bool {
		h := m.shard(m.shardIDOf(e))
		return h != nil && h.phase == serving && (of == "" || of == e.Type)
	}) {
		hot = append(hot, HotEntity{e, m.shardIDOf(e.Entity)})
	}
	return heavy, hot
}

// setHotLimits replaces the region's limits for counting hot entities, in t, with one shard core's equal share.
// A shard core may have more than its share of the hot entities, so each has room for at least 64.
func (c *Config) setHotLimits(t *turn.Config, index int) {
	hot := &t.Hot
	if hot.Entries > 0 {
		hot.Entries = max(min(hot.Entries, 64), hot.Entries/c.ShardCores)
	}
	hot.Bytes, hot.Samples, hot.HalfLife = hot.Bytes/c.ShardCores, max(1, hot.Samples/c.ShardCores), c.LoadHalfLife
	t.HotSeed += uint64(index)
}
