package allocation

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Target describes the regions that a rollout prefers. In the zero value, no rollout is on.
type Target struct {
	// Version is the version of the preferred regions; "": no rollout is on.
	Version string
	// Share is the multiple of its fair share of a type's shards that a region gets before others are given
	// shards too.
	Share float64
}

// Room returns how many shards of a type a region may have before others are preferred: its fair
// share, times Share. The type has so many shards with an owner, and so many regions can be given some.
func (t Target) Room(shards, regions int) int {
	regions = max(1, regions)
	fair := (max(1, shards) + regions - 1) / regions
	return int(math.Ceil(t.Share * float64(fair)))
}

// Preferred narrows a view in a rollout: to the regions of the target version that have fewer shards of
// the type than the room, if there are any that may be given the shard. What operators want, and the
// capacity of regions, counts more than the version; zones count less.
func (t Target) Preferred(v View, s sharding.ShardID, room int) View {
	everywhere := v
	everywhere.Regions = slices.Clone(v.Regions)
	for i := range everywhere.Regions {
		everywhere.Regions[i].Zone = ""
	}
	wanted, _ := Candidates(everywhere, s)
	v.Regions = slices.DeleteFunc(slices.Clone(v.Regions), func(r Region) bool {
		return !slices.ContainsFunc(wanted.Regions, func(w Region) bool { return w.Node == r.Node })
	})
	others := func(r Region) bool { return len(r.Shards) >= room || r.Version != t.Version }
	if slices.ContainsFunc(v.Regions, func(r Region) bool { return !others(r) }) {
		v.Regions = slices.DeleteFunc(v.Regions, others)
	}
	return v
}
