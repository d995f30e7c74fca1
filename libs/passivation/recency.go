package passivation

// recency replaces the least recently used entity. With several segments it is a segmented
// LRU. A new entity is in the first segment, and every further touch moves it one segment up.
// If a segment then has more entities than its limit, its least recently used one moves one
// segment down. The victim is the least recently used entity of the first segment.
type recency struct {
	entities *EntityTable
	limit    int
	// proportions are the parts of the limit that the segments have.
	proportions []float64
	segments    []segment
}

type segment struct {
	list
	limit int
}

// newRecency returns an LRU with one segment for each proportion, or with one for none.
func newRecency(entities *EntityTable, proportions []float64) *recency {
	return &recency{entities: entities, proportions: proportions, segments: make([]segment, max(1, len(proportions)))}
}

func (r *recency) touch(e Entity, evicted []Entity) []Entity {
	t := &r.entities.tracked[e]
	switch top := uint32(len(r.segments)); t.group {
	case 0:
		r.put(e, 1)
	case top:
		r.entities.order.moveToBack(&r.segments[top-1].list, uint32(e))
	default:
		level := t.group + 1
		r.take(e)
		r.put(e, level)
		r.demote(level)
	}
	return r.evict(evicted)
}

func (r *recency) setLimit(n int, evicted []Entity) []Entity {
	r.limit = n
	first := n // the first segment gets what the others leave of n
	for i := 1; i < len(r.segments); i++ {
		r.segments[i].limit = int(r.proportions[i] * float64(n))
		first -= r.segments[i].limit
	}
	r.segments[0].limit = first
	return r.evict(evicted)
}

// evict evicts as many entities as there are beyond the limit. All victims are in the first
// segment. So entities beyond the limits of the upper segments move down before: when the limit
// was lowered, the first segment alone might have too few entities.
func (r *recency) evict(evicted []Entity) []Entity {
	excess := r.len() - r.limit
	if excess <= 0 {
		return evicted
	}
	for level := uint32(len(r.segments)); level > 1; level-- {
		r.demote(level)
	}
	for ; excess > 0; excess-- {
		e := Entity(r.segments[0].front)
		r.take(e)
		evicted = append(evicted, e)
	}
	return evicted
}

// demote moves entities to the segment below until a segment has no more than its limit.
func (r *recency) demote(level uint32) {
	s := &r.segments[level-1]
	for s.size > s.limit {
		e := Entity(s.front)
		r.take(e)
		r.put(e, level-1)
	}
}

func (r *recency) put(e Entity, level uint32) {
	r.entities.tracked[e].group = level
	r.entities.order.pushBack(&r.segments[level-1].list, uint32(e))
}

func (r *recency) take(e Entity) {
	t := &r.entities.tracked[e]
	r.entities.order.remove(&r.segments[t.group-1].list, uint32(e))
	t.group = 0
}

func (r *recency) remove(e Entity) { r.take(e) }

func (r *recency) victim() Entity { return Entity(r.segments[0].front) }

func (r *recency) len() int {
	n := 0
	for i := range r.segments {
		n += r.segments[i].size
	}
	return n
}

// mostRecent replaces the most recently used of the other entities when a new one is touched.
// That suits entities which are used in rounds: the one that was used last is the one whose
// next use is furthest away.
type mostRecent struct {
	entities *EntityTable
	limit    int
	used     list
}

func (r *mostRecent) touch(e Entity, evicted []Entity) []Entity {
	if r.entities.tracked[e].group != 0 {
		r.entities.order.moveToBack(&r.used, uint32(e))
		return evicted
	}
	if r.limit == 0 {
		return append(evicted, e)
	}
	evicted = r.evict(1, evicted)
	r.entities.tracked[e].group = 1
	r.entities.order.pushBack(&r.used, uint32(e))
	return evicted
}

func (r *mostRecent) setLimit(n int, evicted []Entity) []Entity {
	r.limit = n
	return r.evict(0, evicted)
}

// evict evicts entities until there is room for a number of new ones.
func (r *mostRecent) evict(more int, evicted []Entity) []Entity {
	for r.used.size > 0 && r.used.size+more > r.limit {
		e := r.victim()
		r.remove(e)
		evicted = append(evicted, e)
	}
	return evicted
}

func (r *mostRecent) remove(e Entity) {
	r.entities.order.remove(&r.used, uint32(e))
	r.entities.tracked[e].group = 0
}

func (r *mostRecent) victim() Entity { return Entity(r.used.back) }

func (r *mostRecent) len() int { return r.used.size }
