package region

import (
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Quarantine lists the suspects and the quarantined entities of a type.
type Quarantine struct {
	Type sharding.EntityType
	List []sharding.Quarantined
}

func (Quarantine) order() {}

// quarantine passes the suspects and the quarantined entities of types that have changed on to the shard
// cores, before any order to host a shard. It returns the entities of any type that were released.
func (c *ControlCore) quarantine(changed []sharding.TypeDesc) (released []outbox.Released) {
	for i := range changed {
		name := changed[i].Type
		d, known := c.table.Type(name)
		before := c.quarantined[name]
		if !known || slices.Equal(before, d.Quarantined) {
			continue
		}
		if ids := noLonger(before, d.Quarantined); len(ids) > 0 {
			released = append(released, outbox.Released{Type: typeOfSends(d), IDs: ids})
		}
		c.quarantined[name] = d.Quarantined
		if _, hosted := c.shards[name]; hosted {
			c.orderAll(Quarantine{Type: name, List: d.Quarantined})
		}
	}
	return released
}

// noLonger returns the entities that were listed before, and now are not listed, or only suspected. Suspects
// run.
func noLonger(before, now []sharding.Quarantined) (ids []sharding.EntityID) {
	for _, b := range before {
		i := slices.IndexFunc(now, func(n sharding.Quarantined) bool { return n.ID == b.ID })
		if i < 0 || now[i].Suspect && !b.Suspect {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// behind reports whether this region's copy of the route table is older than an order to host a shard requires: the
// region must know which entities are quarantined before it runs any. The order is ignored, and its sender repeats it.
func (c *ControlCore) behind(in control.HostShard) bool {
	return c.table.Version().Compare(in.Table) < 0 //mutant:false quarantine-known
}

// demandedTable returns the version of the table that the successor of a shard must know: the version that the
// coordinator demands, or this region's version if it is newer and has quarantined entities. This region may
// not know yet of a quarantine that is older than the order to hand the shard off.
func (c *ControlCore) demandedTable(order control.HandOff) sharding.Version {
	demanded := order.Table
	//mutant:do quarantine-handed-on demanded = sharding.Version{}
	if known := c.table.Version(); len(c.quarantined[order.Shard.Type]) > 0 && known.Compare(demanded) > 0 {
		return known
	}
	return demanded
}

// crash returns how the process before this one has ended, for the next registration.
func (c *ControlCore) crash() control.Crash {
	crash := c.cfg.Crash.Crash
	if crash.Of == 0 || c.crashTold {
		return control.Crash{}
	}
	crash.Ago = max(0, c.now.Sub(c.cfg.Crash.At))
	return crash
}

func (m *ShardCore) quarantine(in Quarantine) {
	m.stepTurn(turn.SetQuarantine{Type: in.Type, List: in.List})
}
