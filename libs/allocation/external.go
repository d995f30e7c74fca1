package allocation

import "github.com/roost-cluster/roost/libs/sharding"

// External leaves it to a program where shards go. The program says so by pinning them, see
// [View.Pins]. It is the external allocation strategy of Akka. A shard without a pin goes to
// the region with the fewest, and stays there: nothing moves for balance.
type External struct{}

// Allocate picks the region that the shard is pinned to. If the shard is not pinned, or the region is not
// here or takes no shards, it picks the most suitable one.
func (s External) Allocate(v View, shard sharding.ShardID) sharding.NodeID {
	if at := pinnedTo(v, shard); at != nil && at.candidate() {
		return at.Node
	}
	return mostSuitable(v)
}

// Rebalance returns nothing: moving shards to their pins is not a matter of strategies, see [Plan].
func (s External) Rebalance(View, []sharding.ShardID) []sharding.ShardID { return nil }

// pinnedTo returns the region that a shard is pinned to, if it is here.
func pinnedTo(v View, s sharding.ShardID) *Region {
	pin := v.Pins[s]
	if pin == "" {
		return nil
	}
	for i := range v.Regions {
		if v.Regions[i].Name == pin {
			return &v.Regions[i]
		}
	}
	return nil
}
