package passivation

// Entity is the number of an active entity. The caller chooses it. It must be above 0, and two
// active entities must not have the same one. It should be small: [EntityTable] takes memory for all
// numbers up to the highest one.
type Entity uint32

// EntityTable holds the data that policies keep for each entity, by its number. Policies of
// several types share one EntityTable if their entities are numbered together. It is not safe for
// concurrent use.
type EntityTable struct {
	// order links the entities in the lists of the replacers.
	order links
	// idle links the idle entities of each policy.
	idle    []idleEntity
	tracked []tracked
}

// idleEntity is the data that is kept for an entity while it is idle.
type idleEntity struct {
	link
	since int64 // when it became idle, as the time since Policy.base
}

// tracked is the data that is kept for an entity besides its links: 20 bytes.
type tracked struct {
	hash uint32
	// shard is the index of the shard plus 1; 0: no policy tracks the entity.
	shard uint32
	// group is the segment or bucket that holds the entity; 0: none.
	group    uint32
	accesses uint32 // used by frequency only; counting stops at the highest value
	area     area   // used by composite only
	idle     bool   // the entity is in Policy.idle
}

// area is the place of an entity in a composite.
type area uint8

const (
	nowhere area = iota
	window
	mainArea
)

// grow makes room for an entity.
func (n *EntityTable) grow(e Entity) {
	if missing := int(e) + 1 - len(n.tracked); missing > 0 {
		n.tracked = append(n.tracked, make([]tracked, missing)...)
		n.order = append(n.order, make(links, missing)...)
		n.idle = append(n.idle, make([]idleEntity, missing)...)
	}
}

// pushIdle puts an entity at the end of a list of idle ones.
func (n *EntityTable) pushIdle(l *list, i uint32, since int64) {
	n.idle[i] = idleEntity{link{prev: l.back}, since}
	if l.back != 0 {
		n.idle[l.back].next = i
	} else {
		l.front = i
	}
	l.back = i
	l.size++
}

func (n *EntityTable) removeIdle(l *list, i uint32) {
	at := n.idle[i].link
	if at.prev != 0 {
		n.idle[at.prev].next = at.next
	} else {
		l.front = at.next
	}
	if at.next != 0 {
		n.idle[at.next].prev = at.prev
	} else {
		l.back = at.prev
	}
	l.size--
}

// links has the links of doubly linked lists, by number. A number is in at most one list.
type links []link

type link struct{ prev, next uint32 }

// list is a doubly linked list of numbers above 0.
type list struct {
	front, back uint32 // 0: empty
	size        int
}

func (s links) pushBack(l *list, i uint32) {
	s[i] = link{prev: l.back}
	if l.back != 0 {
		s[l.back].next = i
	} else {
		l.front = i
	}
	l.back = i
	l.size++
}

// insertBefore inserts i before the number at; if at is 0, it inserts i at the end.
func (s links) insertBefore(l *list, i, at uint32) {
	if at == 0 {
		s.pushBack(l, i)
		return
	}
	prev := s[at].prev
	s[i] = link{prev: prev, next: at}
	s[at].prev = i
	if prev != 0 {
		s[prev].next = i
	} else {
		l.front = i
	}
	l.size++
}

func (s links) remove(l *list, i uint32) {
	at := s[i]
	if at.prev != 0 {
		s[at.prev].next = at.next
	} else {
		l.front = at.next
	}
	if at.next != 0 {
		s[at.next].prev = at.prev
	} else {
		l.back = at.prev
	}
	s[i] = link{}
	l.size--
}

func (s links) moveToBack(l *list, i uint32) {
	if l.back != i {
		s.remove(l, i)
		s.pushBack(l, i)
	}
}
