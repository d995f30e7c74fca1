// Package entitylist puts lists of entities together that are read in parts: a region reads its shard
// cores, and a coordinator its regions. The list is in the order of the shards, and within a shard in
// the order of the ids.
package entitylist

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

// Position is a position in a list: after an entity, or, without an id, at the beginning of a shard.
type Position struct {
	Shard sharding.ShardID
	ID    sharding.EntityID
}

// Compare orders positions as the list does.
func (p Position) Compare(o Position) int {
	return cmp.Or(p.Shard.Compare(o.Shard), cmp.Compare(p.ID, o.ID))
}

// Page is a part of a list.
type Page[R any] struct {
	Rows []R
	// Next is the position where the list continues: Rows has all that there is up to Next. nil:
	// nothing is left.
	Next *Position
}

// Merge returns the first rows of several pages, at most limit of them. at returns the position of
// a row. While one page continues somewhere, nothing after that position is returned: otherwise the
// rows that the page does not have yet would never be listed.
func Merge[R any](pages []Page[R], limit int, at func(R) Position) (all Page[R]) {
	for i := range pages {
		all.Rows = append(all.Rows, pages[i].Rows...)
		if next := pages[i].Next; next != nil && (all.Next == nil || next.Compare(*all.Next) < 0) {
			all.Next = next
		}
	}
	sorted.StableBy(all.Rows, func(a, b R) int { return at(a).Compare(at(b)) })
	if all.Next != nil {
		known, _ := slices.BinarySearchFunc(all.Rows, *all.Next, func(r R, next Position) int {
			return cmp.Or(at(r).Compare(next), -1) // a row at that position is known
		})
		all.Rows = all.Rows[:known]
	}
	if len(all.Rows) > limit {
		all.Rows = all.Rows[:limit]
		next := at(all.Rows[limit-1])
		all.Next = &next
	}
	return all
}
