package turn

// slot holds an entity, so that its incarnations lead to it.
type slot struct {
	entity *entity // nil: free
	next   uint32  // the next free slot, if this one is free; 0: none
	size   uint32  // of the entity in bytes, as the driver has reported it; 0: not known
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

// free releases the slot of an entity.
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
