package allocation

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A strategy that compares numbers of shards does not know the constraints that keep a shard from a region.
// It would name the same shards again and again, or move one back and forth between two regions. With
// constraints, strategies that count therefore move a shard only if the best of its candidates has fewer
// shards than its owner by more than is tolerated, and so at least two fewer. Each such move makes the sum
// of the squares smaller, so moving ends.

// evenOut returns shards to move, at most limit, and moves them on the board.
func (b *board) evenOut(inFlight []sharding.ShardID, limit, tolerated int) []sharding.ShardID {
	var moves []sharding.ShardID
	var buf []int
	moving := setOf(inFlight)
	for _, owner := range b.byCount() {
		// What cannot move now can no more after other moves of the same owner.
		type class struct {
			forms sharding.FormSet
			pin   string
		}
		stays := map[class]bool{}
		stay := 0 // its shards that have stayed are the first of its list
		for _, s := range slices.Clone(b.Regions[owner].Shards) {
			if len(moves) >= limit {
				return moves
			}
			of := class{b.formsOf(s), b.Pins[s]}
			if moving[s] || stays[of] {
				stay++
				continue
			}
			was := b.Regions[owner]
			b.lift(owner, s)
			buf, _ = b.candidates(s, buf)
			to := b.mostSuitable(buf)
			worth := to >= 0 && to != owner && len(b.Regions[owner].Shards)+1-len(b.Regions[to].Shards) > tolerated
			// Invariant: planning ends: if all planned moves are made and nothing else changes, the plans finally
			// contain no moves.
			// Mutants: even-out-worth, repair-gains, plan-totals
			//mutant:do even-out-worth worth = to >= 0 && to != owner
			if !worth {
				b.restore(owner, was)
				stays[of] = true
				stay++
				continue
			}
			b.drop(owner, was, stay)
			b.give(to, s)
			moves = append(moves, s)
			moving[s] = true // the new owner may come later in this loop
		}
	}
	return moves
}

// byCount lists the regions that stay, those with most shards first.
func (b *board) byCount() []int {
	var owners []int
	for i := range b.Regions {
		if !b.Regions[i].Status.Going() {
			owners = append(owners, i)
		}
	}
	slices.SortStableFunc(owners, func(a, c int) int { return len(b.Regions[c].Shards) - len(b.Regions[a].Shards) })
	return owners
}

// mostSuitable is the choice of mostSuitable among some regions of the board; -1: there are
// none.
func (b *board) mostSuitable(indexes []int) int { return b.best(indexes, Compare) }

func (b *board) best(indexes []int, compare func(x, y *Region) int) int {
	found := -1
	first := b.first(len(indexes))
	for n := range indexes {
		i := indexes[(first+n)%len(indexes)]
		if found < 0 || compare(&b.Regions[i], &b.Regions[found]) < 0 {
			found = i
		}
	}
	return found
}
