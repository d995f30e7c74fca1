package replies

// entities finds entities by their ids, which are hashes. Almost every command adds an entity and removes it
// again. So this is a hash table whose buckets are linked lists, which does that faster than a map.
type entities struct {
	buckets []*entity // their number is a power of two
	count   int
}

// minBuckets is the first number of buckets.
const minBuckets = 64

func (t *entities) bucket(id uint64) **entity { return &t.buckets[id&uint64(len(t.buckets)-1)] }

// find returns the entity with an id, nil if there is none.
func (t *entities) find(id uint64) *entity {
	if t.count == 0 {
		return nil
	}
	e := *t.bucket(id)
	for e != nil && e.id != id {
		e = e.next
	}
	return e
}

// add adds an entity whose id is not there.
func (t *entities) add(e *entity) {
	if t.count == len(t.buckets) {
		t.grow()
	}
	b := t.bucket(e.id)
	e.next, *b = *b, e
	t.count++
}

// remove removes an entity that is there.
func (t *entities) remove(e *entity) {
	b := t.bucket(e.id)
	for *b != e {
		b = &(*b).next
	}
	*b, e.next = e.next, nil
	t.count--
}

// grow doubles the number of buckets. It is never lowered: the commands of a connection are bounded.
func (t *entities) grow() {
	old := t.buckets
	t.buckets = make([]*entity, max(minBuckets, 2*len(old)))
	for _, e := range old {
		for e != nil {
			next, b := e.next, t.bucket(e.id)
			e.next, *b = *b, e
			e = next
		}
	}
}
