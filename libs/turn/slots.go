package turn

// slot holds an entity, so that its incarnations lead to it.
type slot struct {
	entity *entity // nil: free
	// prev and next link the idle list; next also links the free slots. 0: none.
	prev, next uint32
}

// slots holds all entities. The first slot is never used, so that 0 can mean none;
// its next is the first free slot.
type slots []slot

// alloc puts an entity into a free slot and returns its number.
func (p *slots) alloc(e *entity) uint32 {
	s := *p
	n := s[0].next
	if n == 0 {
		*p = append(s, slot{entity: e})
		return uint32(len(s))
	}
	s[0].next = s[n].next
	s[n] = slot{entity: e}
	return n
}

// free releases the slot of an entity that is not in an idle list.
func (p slots) free(n uint32) {
	p[n] = slot{next: p[0].next}
	p[0].next = n
}

// at returns the entity in the incarnation's slot. If that incarnation has ended,
// the slot may hold another entity by now.
func (p slots) at(inc Incarnation) *entity {
	n := inc.Slot()
	if uint64(n) >= uint64(len(p)) {
		return nil
	}
	return p[n].entity
}

// idleList links the idle entities of a type by slot, longest idle first.
type idleList struct{ front, back uint32 }

// addIdle appends a live entity to the idle list.
func (m *Machine) addIdle(e *entity) {
	n, l := e.inc.Slot(), &e.shard.typ.idle
	e.inIdleList = true
	m.slots[n].prev, m.slots[n].next = l.back, 0
	if l.back != 0 {
		m.slots[l.back].next = n
	} else {
		l.front = n
	}
	l.back = n
}

// removeIdle removes an entity from the idle list, if it is in it.
func (m *Machine) removeIdle(e *entity) {
	if !e.inIdleList {
		return
	}
	p, l := &m.slots[e.inc.Slot()], &e.shard.typ.idle
	if p.prev != 0 {
		m.slots[p.prev].next = p.next
	} else {
		l.front = p.next
	}
	if p.next != 0 {
		m.slots[p.next].prev = p.prev
	} else {
		l.back = p.prev
	}
	e.inIdleList, p.prev, p.next = false, 0, 0
}
