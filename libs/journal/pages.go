package journal

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Damaged names an entity, or the fence or the wake-ups and sends of a shard, whose stored data is damaged.
// Operations on it are refused until the data can be read again.
type Damaged struct {
	Shard  sharding.ShardID // the zero value if only the entity is known
	Entity sharding.Entity  // the zero value if it is the fence, or wake-ups or sends
	Err    error
}

// Position is the place in a shard where a page of its rows begins: a [ShardPosition] or a [SendPosition].
type Position interface{ In() sharding.ShardID }

// Row is a row of a page: a [WakeRow] or a [SendRow].
type Row interface {
	In() sharding.ShardID
	// Damage returns the entity of the row, and the reason why a part of the row cannot be read, or nil.
	Damage() (sharding.Entity, error)
}

// In returns the shard of the position.
func (p ShardPosition) In() sharding.ShardID { return p.Shard }

// In returns the shard of the position.
func (p SendPosition) In() sharding.ShardID { return p.Shard }

// In returns the shard of the row.
func (w WakeRow) In() sharding.ShardID { return w.Shard }

// In returns the shard of the row.
func (s SendRow) In() sharding.ShardID { return s.Shard }

// Damage implements [Row].
func (w WakeRow) Damage() (sharding.Entity, error) { return w.Entity, w.Err }

// Damage implements [Row].
func (s SendRow) Damage() (sharding.Entity, error) { return s.Entity, s.Err }

// JoinPages makes one page of pages of different shards, in the order of the shards.
func JoinPages[R Row](shards []sharding.ShardID, pages []Page[R]) (all Page[R]) {
	for i := range pages {
		all.Add(&pages[i])
	}
	place := make(map[sharding.ShardID]int, len(shards))
	for i, s := range shards {
		place[s] = i
	}
	slices.SortStableFunc(all.Rows, func(a, b R) int { return place[a.In()] - place[b.In()] })
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
