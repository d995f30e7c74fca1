package turn

// place is where an entity is found by its incarnations.
type place struct {
	entity *entity // nil: free
	// The neighbours of an idle entity; next is also that of a free place. 0: none.
	prev, next uint32
}

// places are the places of all entities. There is nobody at the first one, so
// that 0 names none: its next is the first free one.
type places []place

// take gives a place to an entity.
func (p *places) take(e *entity) uint32 {
	s := *p
	n := s[0].next
	if n == 0 {
		*p = append(s, place{entity: e})
		return uint32(len(s))
	}
	s[0].next = s[n].next
	s[n] = place{entity: e}
	return n
}

// free takes back the place of an entity that is not idle.
func (p places) free(n uint32) {
	p[n] = place{next: p[0].next}
	p[0].next = n
}

// at is the entity that the incarnation is or was one of, unless its place has
// passed to another.
func (p places) at(inc Incarnation) *entity {
	n := inc.Place()
	if uint64(n) >= uint64(len(p)) {
		return nil
	}
	return p[n].entity
}

// idle lists the entities of a type that have nothing to do, by place, the one
// that is longest idle first.
type idle struct{ front, back uint32 }

// list puts a live entity to the idle ones.
func (m *Machine) list(e *entity) {
	n, l := e.inc.Place(), &e.shard.typ.idle
	e.listed = true
	m.places[n].prev, m.places[n].next = l.back, 0
	if l.back != 0 {
		m.places[l.back].next = n
	} else {
		l.front = n
	}
	l.back = n
}

// unlist takes an entity from the idle ones, if it is there.
func (m *Machine) unlist(e *entity) {
	if !e.listed {
		return
	}
	p, l := &m.places[e.inc.Place()], &e.shard.typ.idle
	if p.prev != 0 {
		m.places[p.prev].next = p.next
	} else {
		l.front = p.next
	}
	if p.next != 0 {
		m.places[p.next].prev = p.prev
	} else {
		l.back = p.prev
	}
	e.listed, p.prev, p.next = false, 0, 0
}
