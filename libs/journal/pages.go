package journal

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

// Damaged names an entity, or the fence or the wake-ups and sends of a shard, whose stored data is damaged.
// Operations on it are refused until the data can be read again.
type Damaged struct {
	Shard  sharding.ShardID // the zero value if only the entity is known
	Entity sharding.Entity  // the zero value if it is the fence, or wake-ups or sends
	Err    error
}

// JoinPages makes one page of pages of different shards, in the order of the shards. shard returns the shard of a
// row.
func JoinPages[R any](shards []sharding.ShardID, pages []Page[R], shard func(*R) sharding.ShardID) (all Page[R]) {
	for i := range pages {
		all.Add(&pages[i])
	}
	place := make(map[sharding.ShardID]int, len(shards))
	for i, s := range shards {
		place[s] = i
	}
	sorted.StableBy(all.Rows, func(a, b R) int { return place[shard(&a)] - place[shard(&b)] })
	return all
}

// Add adds a page of other shards.
func (p *Page[R]) Add(other *Page[R]) {
	if p.Now.IsZero() {
		p.Now = other.Now
	}
	p.Rows, p.More, p.Damaged = append(p.Rows, other.Rows...), append(p.More, other.More...), append(p.Damaged, other.Damaged...)
}

// Unreadable reports whether the rows of a shard could not be read.
func (p *Page[R]) Unreadable(shard sharding.ShardID) bool {
	return slices.ContainsFunc(p.Damaged, func(d Damaged) bool { return d.Shard == shard })
}
