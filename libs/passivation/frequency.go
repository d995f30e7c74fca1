package passivation

import "math"

// frequency replaces the entity with the lowest key, and among several of them the one that has
// had this key for longest. The key of an entity is the number of its accesses: the least
// frequently used entity goes. With aging, the age is added when an entity is touched. The age
// is the key of the last victim, so it grows. In the end, entities go that were used often, but
// long ago.
type frequency struct {
	entities *EntityTable
	limit    int
	size     int
	aging    bool
	age      uint64
	// Each bucket holds the entities of one key. byKey is the list of the buckets in use, in
	// the order of their keys; the links of buckets[i] are links[i]. buckets[0] is not used.
	buckets []bucket
	links   links
	byKey   list
	free    []uint32 // indexes of buckets that are not in use
}

type bucket struct {
	list
	key uint64
}

func newFrequency(entities *EntityTable, aging bool) *frequency {
	return &frequency{entities: entities, aging: aging, buckets: make([]bucket, 1), links: make(links, 1)}
}

func (f *frequency) touch(e Entity, evicted []Entity) []Entity {
	t := &f.entities.tracked[e]
	if t.group == 0 {
		return f.insert(e, evicted)
	}
	if t.accesses < math.MaxUint32 {
		t.accesses++
	}
	// The search for the new bucket begins at the old one, so it comes before take, which may
	// remove the old one.
	if to := f.bucket(f.key(t), t.group); to == t.group {
		f.entities.order.moveToBack(&f.buckets[to].list, uint32(e))
	} else {
		f.take(e)
		f.put(e, to)
	}
	return evicted
}

// insert adds an entity. It evicts first, for two reasons. The new entity has only one access,
// and would be the victim itself. And with aging, its key depends on the age, which is the key
// of the last victim.
func (f *frequency) insert(e Entity, evicted []Entity) []Entity {
	if f.limit == 0 {
		return append(evicted, e)
	}
	evicted = f.evict(1, evicted)
	f.entities.tracked[e].accesses = 1
	f.put(e, f.bucket(f.key(&f.entities.tracked[e]), f.byKey.front))
	f.size++
	return evicted
}

func (f *frequency) key(t *tracked) uint64 {
	if f.aging {
		return uint64(t.accesses) + f.age
	}
	return uint64(t.accesses)
}

// bucket returns the index of the bucket with a key, and makes the bucket if there is none. The
// search begins at bucket from, whose key must not be higher.
func (f *frequency) bucket(key uint64, from uint32) uint32 {
	at := from
	// With aging, the key is often higher than all others. Then there is nothing to search.
	if last := f.byKey.back; last != 0 && f.buckets[last].key < key {
		at = 0
	}
	for at != 0 && f.buckets[at].key < key {
		at = f.links[at].next
	}
	if at != 0 && f.buckets[at].key == key {
		return at
	}
	var b uint32
	if last := len(f.free) - 1; last >= 0 {
		b, f.free = f.free[last], f.free[:last]
	} else {
		b = uint32(len(f.buckets))
		f.buckets, f.links = append(f.buckets, bucket{}), append(f.links, link{})
	}
	f.buckets[b] = bucket{key: key}
	f.links.insertBefore(&f.byKey, b, at)
	return b
}

func (f *frequency) put(e Entity, b uint32) {
	f.entities.tracked[e].group = b
	f.entities.order.pushBack(&f.buckets[b].list, uint32(e))
}

// take takes an entity out of its bucket, and removes the bucket if it is empty then.
func (f *frequency) take(e Entity) {
	t := &f.entities.tracked[e]
	b := &f.buckets[t.group]
	f.entities.order.remove(&b.list, uint32(e))
	if b.size == 0 {
		f.links.remove(&f.byKey, t.group)
		f.free = append(f.free, t.group)
	}
	t.group = 0
}

func (f *frequency) remove(e Entity) {
	f.take(e)
	f.size--
}

func (f *frequency) setLimit(n int, evicted []Entity) []Entity {
	f.limit = n
	return f.evict(0, evicted)
}

// evict evicts entities until there is room for a number of new ones.
func (f *frequency) evict(more int, evicted []Entity) []Entity {
	for f.size > 0 && f.size+more > f.limit {
		e := f.victim()
		if f.aging {
			f.age = f.buckets[f.byKey.front].key
		}
		f.remove(e)
		evicted = append(evicted, e)
	}
	return evicted
}

func (f *frequency) victim() Entity { return Entity(f.buckets[f.byKey.front].front) } // 0 if there are no entities: bucket 0 is empty

func (f *frequency) len() int { return f.size }
