package coordinator

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// RegionName is a region with the name that operators see: its name, or its address.
type RegionName struct {
	Node sharding.NodeID
	Name string
}

// Hosts returns the registered regions that host a type, sorted; of "": those that host any.
func (m *Machine) Hosts(typ sharding.EntityType) (list []RegionName, err error) {
	if typ != "" {
		if _, err := m.table.findType(typ); err != nil {
			return nil, err
		}
	}
	for i := range m.live.regions {
		if r := &m.live.regions[i]; r.registered && (typ == "" || r.hosts(typ)) {
			list = append(list, RegionName{r.node, cmp.Or(r.name, r.node.Addr)})
		}
	}
	return list, nil
}

// Hosts returns the registered regions that host a type, sorted; of "": those that host any.
func (t *Tenure) Hosts(typ sharding.EntityType) ([]RegionName, error) { return t.m.Hosts(typ) }

// OwnerOf returns the region that owns a shard; the zero node: none does, or there is no such shard.
func (t *Tenure) OwnerOf(s sharding.ShardID) sharding.NodeID { return t.m.table.OwnerOf(s) }

// ShardOf returns the shard of an entity; the zero shard: its type is not declared.
func (t *Tenure) ShardOf(e sharding.Entity) sharding.ShardID { return t.m.table.ShardOf(e) }

// LoadedShard is a shard with the load that its owner has reported, in processors, without the waiting.
type LoadedShard struct {
	Shard sharding.ShardID
	Owner sharding.NodeID
	Cost  float64
}

// mostLoaded bounds the number of shards that [Machine.MostLoaded] returns: operators look at the first ones.
const mostLoaded = 10

// MostLoaded returns the served shards whose reported loads cost most, the costliest first: at most 10, and only those
// that cost at least so many processors.
func (tab *table) MostLoaded(weights allocation.Weights, least float64) (list []LoadedShard) {
	for _, t := range tab.types {
		for i := range t.loads {
			row := &t.rows[i]
			if row.Phase != sharding.Serving {
				continue
			}
			if cost := weights.Work(t.shown[i].Load); cost >= least {
				list = append(list, LoadedShard{row.Shard, row.Owner, cost})
			}
		}
	}
	slices.SortFunc(list, func(a, b LoadedShard) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), a.Shard.Compare(b.Shard))
	})
	return list[:min(len(list), mostLoaded)]
}

// MostLoaded returns the served shards whose reported loads cost most, see [Machine.MostLoaded].
func (t *Tenure) MostLoaded(weights allocation.Weights, least float64) []LoadedShard {
	return t.m.table.MostLoaded(weights, least)
}
