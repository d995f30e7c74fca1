package passivation

import "math"

// frequency replaces the least frequently used entity, and among equals the one that has
// been in its bucket longest. With aging, the key of an entity is the number of its accesses plus
// the age, which is the key of the last victim: so entities that were used often, but long
// ago, go in the end. An entity keeps its key until it is touched again.
type frequency struct {
	nodes *Nodes
	limit int
	size  int
	aging bool
	age   uint64
	// buckets hold the entities with equal keys. byKey links them in the order of their
	// keys; the links of buckets[i] are links[i]. Number 0 is not used.
	buckets []bucket
	links   links
	byKey   list
	free    []uint32 // unused numbers of buckets
}

type bucket struct {
	list
	key uint64
}

func newFrequency(nodes *Nodes, aging bool) *frequency {
	return &frequency{nodes: nodes, aging: aging, buckets: make([]bucket, 1), links: make(links, 1)}
}

func (f *frequency) touch(e Entity, evicted []Entity) []Entity {
	t := &f.nodes.tracked[e]
	if t.group == 0 {
		return f.insert(e, evicted)
	}
	if t.accesses < math.MaxUint32 {
		t.accesses++
	}
	// The new bucket is found from the old one, which may be gone afterwards.
	if to := f.bucket(f.key(t), t.group); to == t.group {
		f.nodes.order.moveToBack(&f.buckets[to].list, uint32(e))
	} else {
		f.take(e)
		f.put(e, to)
	}
	return evicted
}

// insert adds an entity. Victims go before it comes: it has one access, and must not be its
// own victim. Its key depends on the age that they leave behind.
func (f *frequency) insert(e Entity, evicted []Entity) []Entity {
	if f.limit == 0 {
		return append(evicted, e)
	}
	evicted = f.evict(1, evicted)
	f.nodes.tracked[e].accesses = 1
	f.put(e, f.bucket(f.key(&f.nodes.tracked[e]), f.byKey.front))
	f.size++
	return evicted
}

func (f *frequency) key(t *tracked) uint64 {
	if f.aging {
		return uint64(t.accesses) + f.age
	}
	return uint64(t.accesses)
}

// bucket returns the bucket with a key. It is searched from a bucket whose key is not
// higher, or from the first one.
func (f *frequency) bucket(key uint64, from uint32) uint32 {
	at := from
	// With aging, a key often becomes the highest one: that saves a search past all others.
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
	f.nodes.tracked[e].group = b
	f.nodes.order.pushBack(&f.buckets[b].list, uint32(e))
}

// take takes an entity out of its bucket. A bucket without entities goes.
func (f *frequency) take(e Entity) {
	t := &f.nodes.tracked[e]
	b := &f.buckets[t.group]
	f.nodes.order.remove(&b.list, uint32(e))
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

// evict removes entities until there is room for some more.
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

func (f *frequency) victim() Entity { return Entity(f.buckets[f.byKey.front].front) } // bucket 0 is empty

func (f *frequency) len() int { return f.size }
