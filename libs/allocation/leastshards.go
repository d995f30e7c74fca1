package allocation

import "github.com/roost-cluster/roost/libs/sharding"

// LeastShards allocates a shard to the region with the fewest, and moves up to a limit of
// shards per round until no two regions differ by more than one. It is the least-shard
// strategy of Akka 2.6.10. Without limits a few rounds are enough. The next round starts
// only when nothing is in flight.
type LeastShards struct {
	RelativeLimit float64 // part of the type's shards per round, see Config
	AbsoluteLimit int     // shards per round, see Config
}

// Allocate picks the most suitable region.
func (s LeastShards) Allocate(v View, _ sharding.ShardID) sharding.NodeID { return mostSuitable(v) }

// Rebalance returns the shards that regions have above the rounded-up average, oldest
// allocation first. If there are none, it returns one shard each of regions with that
// average, as many as are missing elsewhere. If constraints or forms keep shards from some
// regions, it compares regions in pairs instead, see [board.evenOut].
func (s LeastShards) Rebalance(v View, inFlight []sharding.ShardID) []sharding.ShardID {
	if len(inFlight) > 0 || !v.Settled() {
		return nil
	}
	sorted := bySuitability(v.Regions)
	shards := 0
	for _, r := range sorted {
		shards += len(r.Shards)
	}
	if shards == 0 {
		return nil
	}
	limit := max(1, min(int(s.RelativeLimit*float64(shards)), s.AbsoluteLimit))
	if v.constrained() {
		return newBoard(v).evenOut(nil, limit, 1)
	}
	optimal := (shards + len(sorted) - 1) / len(sorted)
	if moves := surplus(sorted, optimal, limit); len(moves) > 0 {
		return moves
	}
	return fillGaps(sorted, optimal, limit)
}

func surplus(sorted []*Region, optimal, limit int) []sharding.ShardID {
	var moves []sharding.ShardID
	for _, r := range sorted {
		if n := min(len(r.Shards)-optimal, limit-len(moves)); n > 0 {
			moves = append(moves, r.Shards[:n]...)
		}
	}
	return moves
}

// fillGaps handles the case in which every region has at most the rounded-up
// average, but some have two less: they could each get one more.
func fillGaps(sorted []*Region, optimal, limit int) []sharding.ShardID {
	below := 0
	for _, r := range sorted {
		below += max(0, optimal-1-len(r.Shards))
	}
	n := min(below, limit)
	var moves []sharding.ShardID
	for _, r := range sorted {
		if len(moves) >= n {
			break
		}
		if len(r.Shards) >= optimal {
			moves = append(moves, r.Shards[0])
		}
	}
	return moves
}
