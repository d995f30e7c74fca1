package replies

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Queue holds the commands of one connection that wait for capacity for their replies.
// Commands for one entity keep their order. Commands with large replies keep their order
// too, so that the command with the largest reply is not overtaken forever. Commands with small replies
// overtake commands with large ones: some capacity is reserved for small replies. If an entity owes as many
// bytes of replies as its share, further commands for it wait in a list of their own, and hold up no other
// entity.
type Queue[T any] struct {
	Account
	small, large list[T]
	held         []*held[T]
	dropped      bool // the connection has ended
}

// list has commands in the order in which they arrived.
type list[T any] []waiting[T]

// held has the commands of one entity that wait until the entity owes less.
type held[T any] struct {
	entity  *entity
	waiting list[T]
}

// Request describes a command that asks to be admitted.
type Request struct {
	Entity   sharding.Entity
	Estimate *SizeEstimate
	Size     int       // bytes that the command takes while it waits
	Deadline time.Time // zero: the command may wait for any time
}

type waiting[T any] struct {
	Request
	command  T
	entity   *entity
	until    time.Time // the command waits until then at the latest; zero: for any time
	expected int       // how many bytes the entity owes for the command; 0 until it has passed
}

// Verdict is the result of [Queue.Admit].
type Verdict int

const (
	// Admitted commands have a ticket.
	Admitted Verdict = iota
	// Waits means that the queue has the command.
	Waits
	// Full means that too many commands are waiting: the caller must refuse this one.
	Full
	// Dropped means that the connection has ended. The command must not run, because the commands
	// that waited before it do not run either.
	Dropped
)

// Admit admits a command, or queues it. It copies the command only in the second case.
func (q *Queue[T]) Admit(b *Budget, now time.Time, r *Request, command *T) (Ticket, Verdict) {
	if q.dropped { //mutant:false dropped-stays
		return Ticket{}, Dropped
	}
	e := q.entity(r.Entity)
	holds := e.held > 0 || !b.passes(e, r.Estimate)
	// A command must not overtake the last command of its entity, so it joins the list of that command.
	small := b.small(b.expect(r.Estimate)) && e.large == 0
	// Invariant: if there is no room for the reply to a command, the command waits, and it holds up only commands for
	// the same entity. If there is no room in time, the command is refused, early enough that its sender still gets the
	// refusal. One entity may use only its share of a connection.
	// Mutants: reply-order, reply-patience, entity-share
	if !holds && e.small == 0 && (small && len(q.small) == 0 || !small && len(q.large) == 0) { //mutant:true reply-order
		if t, ok := b.reserve(&q.Account, e, r.Estimate); ok {
			return t, Admitted
		}
	}
	if b.full(e, r.Size) {
		q.removeIdle(e)
		return Ticket{}, Full
	}
	w := waiting[T]{Request: *r, command: *command, entity: e}
	if !r.Deadline.IsZero() {
		w.until = now.Add(time.Duration(b.cfg.WaitingShare * float64(r.Deadline.Sub(now))))
	}
	b.waiting++
	b.bytes += r.Size
	e.bytes += r.Size
	if holds {
		q.hold(&w)
	} else {
		q.pass(b, &w)
	}
	return Ticket{}, Waits
}

// passes reports whether an entity may owe one more reply. It may always owe one.
func (b *Budget) passes(e *entity, estimate *SizeEstimate) bool {
	return e.owed == 0 || e.owed+b.expect(estimate) <= b.cfg.entity() //mutant:true entity-share
}

// full reports whether too much waits already, in total or for the entity. The limit for an entity always
// allows one command.
func (b *Budget) full(e *entity, size int) bool {
	if b.waiting >= b.cfg.Waiting || b.bytes+size > b.cfg.WaitingBytes {
		return true
	}
	n := e.waiting()
	return n > 0 && (float64(n+1) > b.cfg.EntityShare*float64(b.cfg.Waiting) ||
		float64(e.bytes+size) > b.cfg.EntityShare*float64(b.cfg.WaitingBytes))
}

// hold keeps a command until its entity owes less.
func (q *Queue[T]) hold(w *waiting[T]) {
	h := q.holding(w.entity)
	if h == nil {
		h = &held[T]{entity: w.entity}
		q.held = append(q.held, h)
	}
	h.waiting = append(h.waiting, *w)
	w.entity.held++
}

// holding returns the list of commands that wait until an entity owes less; nil: there is none. Only few
// entities owe so much, so a search through all lists is quick.
func (q *Queue[T]) holding(e *entity) *held[T] {
	for _, h := range q.held {
		if h.entity == e {
			return h
		}
	}
	return nil
}

// pass puts a command into a list of the connection.
func (q *Queue[T]) pass(b *Budget, w *waiting[T]) {
	e := w.entity
	w.expected = b.expect(w.Estimate)
	e.owed += w.expected
	if b.small(w.expected) && e.large == 0 {
		q.small = append(q.small, *w)
		e.small++
	} else {
		q.large = append(q.large, *w)
		e.large++
	}
}

// passFreed lets commands pass whose entities owe less now.
func (q *Queue[T]) passFreed(b *Budget) {
	for _, e := range q.freed {
		e.freed = false
		if h := q.holding(e); h != nil {
			n := 0
			for n < len(h.waiting) && b.passes(e, h.waiting[n].Estimate) {
				q.pass(b, &h.waiting[n])
				e.held--
				n++
			}
			clear(h.waiting[:n])
			h.waiting = h.waiting[n:]
		}
		q.removeIdle(e)
	}
	clear(q.freed)
	q.freed = q.freed[:0]
	q.removeEmptyHeld()
}

// removeEmptyHeld removes the lists of entities that have no waiting command any more.
func (q *Queue[T]) removeEmptyHeld() {
	q.held = slices.DeleteFunc(q.held, func(h *held[T]) bool { return len(h.waiting) == 0 })
}

// Next admits the next waiting command that has capacity now.
func (q *Queue[T]) Next(b *Budget) (command T, t Ticket, ok bool) {
	if len(q.freed) > 0 {
		q.passFreed(b)
	}
	if len(q.small) > 0 && !b.small(b.expect(q.small[0].Estimate)) {
		q.enlarge(b)
	}
	for _, l := range []*list[T]{&q.small, &q.large} {
		if len(*l) == 0 {
			continue
		}
		w := (*l)[0]
		if l == &q.large && w.entity.small > 0 {
			continue // the command came after the small ones of its entity
		}
		if t, ok = b.reserve(&q.Account, w.entity, w.Estimate); ok {
			(*l)[0] = waiting[T]{}
			*l = (*l)[1:]
			q.removed(b, l, &w)
			return w.command, t, true
		}
	}
	return command, Ticket{}, false
}

// enlarge moves commands from the list small to the list large, if their replies are expected to be large by
// now. Later commands for the same entities are moved too. They come before the commands that are already in
// the list large, because they arrived before the large ones for the same entities. All of them are moved in
// one pass, because many may wait.
func (q *Queue[T]) enlarge(b *Budget) {
	var moved list[T]
	grown := map[*entity]bool{}
	kept := q.small[:0]
	for _, w := range q.small {
		if !grown[w.entity] && b.small(b.expect(w.Estimate)) {
			kept = append(kept, w)
			continue
		}
		grown[w.entity] = true
		moved = append(moved, w)
		w.entity.small--
		w.entity.large++
	}
	clear(q.small[len(kept):])
	q.small = kept
	q.large = append(moved, q.large...)
}

// Lapsed is a command that has waited for too much of its time, with a ticket for
// its refusal.
type Lapsed[T any] struct {
	Command T
	Ticket  Ticket
}

// Late removes and returns the commands that have waited for too large a part of the time
// until their deadline, each with a ticket for its refusal. The parameter refusals estimates the size of
// refusals. If there is no room for the refusal of a command, the command stays. Late looks at all commands
// that wait, so it is meant for every tick and not for every command.
func (q *Queue[T]) Late(b *Budget, now time.Time, refusals *SizeEstimate) (lapsed []Lapsed[T]) {
	late := func(l *list[T]) {
		kept := (*l)[:0]
		for i := range *l {
			w := &(*l)[i]
			if !w.until.IsZero() && !now.Before(w.until) { //mutant:false reply-patience
				if t, ok := b.Reserve(&q.Account, refusals); ok {
					lapsed = append(lapsed, Lapsed[T]{w.command, t})
					q.removed(b, l, w)
					continue
				}
			}
			kept = append(kept, *w)
		}
		clear((*l)[len(kept):])
		*l = kept
	}
	late(&q.small)
	late(&q.large)
	for _, h := range q.held {
		late(&h.waiting)
	}
	q.removeEmptyHeld()
	return lapsed
}

// removed updates the counters for a command that no longer waits in a list.
func (q *Queue[T]) removed(b *Budget, l *list[T], w *waiting[T]) {
	b.waiting--
	b.bytes -= w.Size
	w.entity.bytes -= w.Size
	switch l {
	case &q.small:
		w.entity.small--
	case &q.large:
		w.entity.large--
	default:
		w.entity.held--
	}
	q.release(w.entity, w.expected)
}

// Len returns how many commands wait.
func (q *Queue[T]) Len() int {
	n := len(q.small) + len(q.large)
	for _, h := range q.held {
		n += len(h.waiting)
	}
	return n
}

// Drop clears the queue of a connection that has ended, and its unsent replies. Commands that are admitted
// after that are dropped too: earlier commands, which were dropped, may be sent again on another connection,
// and must not be overtaken.
func (q *Queue[T]) Drop(b *Budget) {
	q.dropped = true
	drop := func(l *list[T]) {
		for i := range *l {
			q.removed(b, l, &(*l)[i])
		}
		*l = nil
	}
	drop(&q.small)
	drop(&q.large)
	for _, h := range q.held {
		drop(&h.waiting)
	}
	if len(q.freed) > 0 {
		q.passFreed(b)
	}
	q.held = nil
	b.SetUnsent(&q.Account, 0)
}

// Waiting returns the number of waiting commands, on all connections.
func (b *Budget) Waiting() int { return b.waiting }
