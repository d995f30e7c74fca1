package coordinator

import (
	"cmp"

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
		if _, err := m.findType(typ); err != nil {
			return nil, err
		}
	}
	for i := range m.regions {
		if r := &m.regions[i]; r.registered && (typ == "" || r.hosts(typ)) {
			list = append(list, RegionName{r.node, cmp.Or(r.name, r.node.Addr)})
		}
	}
	return list, nil
}

// OwnerOf returns the region that owns a shard; the zero node: none does, or there is no such shard.
func (m *Machine) OwnerOf(s sharding.ShardID) sharding.NodeID {
	if _, r := m.find(s); r != nil {
		return r.Owner
	}
	return sharding.NodeID{}
}

// ShardOf returns the shard of an entity; the zero shard: its type is not declared.
func (m *Machine) ShardOf(e sharding.Entity) sharding.ShardID {
	if i, found := m.searchType(e.Type); found {
		return m.types[i].desc.ShardOf(e.ID)
	}
	return sharding.ShardID{}
}

// Hosts returns the registered regions that host a type, sorted; of "": those that host any.
func (t *Tenure) Hosts(typ sharding.EntityType) ([]RegionName, error) { return t.m.Hosts(typ) }

// OwnerOf returns the region that owns a shard; the zero node: none does, or there is no such shard.
func (t *Tenure) OwnerOf(s sharding.ShardID) sharding.NodeID { return t.m.OwnerOf(s) }

// ShardOf returns the shard of an entity; the zero shard: its type is not declared.
func (t *Tenure) ShardOf(e sharding.Entity) sharding.ShardID { return t.m.ShardOf(e) }
