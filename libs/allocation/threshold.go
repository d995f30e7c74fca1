package allocation

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Threshold moves a few shards at a time from the region with the most to the
// one with the fewest, while they differ by more than the threshold. It is
// the least-shard strategy of Akka before 2.6.10. It continues while earlier moves are in
// flight, and it does not always reach the most even distribution.
type Threshold struct {
	Threshold       int // tolerated difference in shards, see Config
	MaxSimultaneous int // shards of a type on the move, see Config
}

// Allocate picks the most suitable region.
func (s Threshold) Allocate(v View, _ sharding.ShardID) sharding.NodeID { return mostSuitable(v) }

// Rebalance returns the shards with the lowest indexes of the region that has the most
// shards which are not moving. If constraints or forms keep shards from some regions, it
// compares regions in pairs instead, see [board.evenOut].
func (s Threshold) Rebalance(v View, inFlight []sharding.ShardID) []sharding.ShardID {
	if len(inFlight) >= s.MaxSimultaneous || !v.Settled() {
		return nil
	}
	sorted := bySuitability(v.Regions)
	if len(sorted) == 0 {
		return nil
	}
	free := s.MaxSimultaneous - len(inFlight)
	if v.constrained() {
		return newBoard(v).evenOut(inFlight, min(s.Threshold, free), max(1, s.Threshold))
	}
	moving := setOf(inFlight)
	var most []sharding.ShardID
	for _, r := range sorted {
		if staying := without(r.Shards, moving); len(staying) > len(most) {
			most = staying
		}
	}
	difference := len(most) - len(sorted[0].Shards)
	if difference <= s.Threshold {
		return nil
	}
	n := min(difference-s.Threshold, s.Threshold, free)
	slices.SortFunc(most, sharding.ShardID.Compare)
	return most[:n]
}

func without(shards []sharding.ShardID, moving map[sharding.ShardID]bool) []sharding.ShardID {
	staying := make([]sharding.ShardID, 0, len(shards))
	for _, sh := range shards {
		if !moving[sh] {
			staying = append(staying, sh)
		}
	}
	return staying
}
