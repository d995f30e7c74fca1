// Package pack has a custom allocation strategy: it packs the shards of a type into as few regions as
// possible, so that the others can be turned off. Command pack-coordinator is a coordinator that has it.
//
// # What this does not do
//
// It does not turn machines off, and does not look at how busy a shard is.
package pack

import (
	"cmp"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Strategy fills one region after the other, by their names. It is a value: strategies keep
// nothing, so that a new coordinator decides as the one before it.
type Strategy struct {
	// PerRegion is the number of shards of a type that a region gets before the next region gets any. If
	// all regions have that many, they share the rest evenly.
	PerRegion int
}

// Allocate returns the first region that is not full.
func (s Strategy) Allocate(v allocation.View, _ sharding.ShardID) sharding.NodeID {
	regions := byName(v)
	full := s.full(regions, 1)
	for _, r := range regions {
		if len(r.Shards) < full {
			return r.Node
		}
	}
	return sharding.NodeID{} // there is no region
}

// Rebalance returns the shards that a region has although regions before it are not full, and
// those that it has in excess. The next round begins when these have moved.
func (s Strategy) Rebalance(v allocation.View, inFlight []sharding.ShardID) []sharding.ShardID {
	if len(inFlight) > 0 || !v.Settled() {
		return nil
	}
	regions := byName(v)
	full := s.full(regions, 0)
	left := 0
	for _, r := range regions {
		left += len(r.Shards)
	}
	var moves []sharding.ShardID
	for _, r := range regions {
		wanted := min(full, left)
		left -= wanted
		if excess := len(r.Shards) - wanted; excess > 0 {
			moves = append(moves, r.Shards[:excess]...)
		}
	}
	return moves
}

// full is the number of shards of a full region, if there are some more to come.
func (s Strategy) full(regions []allocation.Region, more int) int {
	shards := more
	for _, r := range regions {
		shards += len(r.Shards)
	}
	n := max(1, len(regions))
	return max(s.PerRegion, (shards+n-1)/n)
}

// byName lists the regions that may be given shards.
func byName(v allocation.View) []allocation.Region {
	regions := slices.DeleteFunc(slices.Clone(v.Regions), func(r allocation.Region) bool {
		return r.Unreachable || r.Status.Going()
	})
	slices.SortFunc(regions, func(a, b allocation.Region) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Node.Compare(b.Node))
	})
	return regions
}
