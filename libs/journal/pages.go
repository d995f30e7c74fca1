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

// Position is the place in a shard where a page of its entries begins: a [ShardPosition] or a [SendPosition].
type Position interface{ In() sharding.ShardID }

// PageEntry is an entry of a page: a [WakeEntry] or a [SendEntry].
type PageEntry interface {
	In() sharding.ShardID
	// Damage returns the entity of the entry, and the reason why a part of the entry cannot be read, or nil.
	Damage() (sharding.Entity, error)
}

// In returns the shard of the position.
func (p ShardPosition) In() sharding.ShardID { return p.Shard }

// In returns the shard of the position.
func (p SendPosition) In() sharding.ShardID { return p.Shard }

// In returns the shard of the entry.
func (w WakeEntry) In() sharding.ShardID { return w.Shard }

// In returns the shard of the entry.
func (s SendEntry) In() sharding.ShardID { return s.Shard }

// Damage implements [PageEntry].
func (w WakeEntry) Damage() (sharding.Entity, error) { return w.Entity, w.Err }

// Damage implements [PageEntry].
func (s SendEntry) Damage() (sharding.Entity, error) { return s.Entity, s.Err }

// JoinPages makes one page of pages of different shards, in the order of the shards.
func JoinPages[R PageEntry](shards []sharding.ShardID, pages []Page[R]) (all Page[R]) {
	for i := range pages {
		all.Add(&pages[i])
	}
	place := make(map[sharding.ShardID]int, len(shards))
	for i, s := range shards {
		place[s] = i
	}
	slices.SortStableFunc(all.Entries, func(a, b R) int { return place[a.In()] - place[b.In()] })
	return all
}

// Add adds a page of other shards.
func (p *Page[R]) Add(other *Page[R]) {
	if p.Now.IsZero() {
		p.Now = other.Now
	}
	p.Entries, p.More, p.Damaged = append(p.Entries, other.Entries...), append(p.More, other.More...), append(p.Damaged, other.Damaged...)
}

// Unreadable reports whether the entries of a shard could not be read.
func (p *Page[R]) Unreadable(shard sharding.ShardID) bool {
	return slices.ContainsFunc(p.Damaged, func(d Damaged) bool { return d.Shard == shard })
}
