package replies

import (
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Queue holds the commands of one connection that wait for capacity for their replies.
// Commands for one entity keep their order. Commands with a large reply keep theirs
// too, so that the largest is not overtaken for ever. Commands with a small reply
// overtake them: some capacity is reserved for those.
type Queue[T any] struct {
	Account
	small, large list[T]
	dropped      bool // the connection has ended
}

// list is one of the two orders of a queue.
type list[T any] struct {
	waiting  []waiting[T]
	entities map[sharding.Entity]int // how many of each wait
}

// Request is what is asked for.
type Request struct {
	Entity   sharding.Entity
	Kind     *Kind
	Size     int       // bytes that the command takes while it waits
	Deadline time.Time // zero: it waits for any time
}

type waiting[T any] struct {
	Request
	command T
	until   time.Time // it waits
}

// Verdict is the result of [Queue.Ask].
type Verdict int

const (
	// Admitted commands have a ticket.
	Admitted Verdict = iota
	// Waits says that the queue has the command.
	Waits
	// Full says that too many commands are waiting: the caller must refuse this one.
	Full
	// Dropped says that the connection has ended: the command is not run, as what
	// waited before it was not.
	Dropped
)

// Ask admits a command, or queues it.
func (q *Queue[T]) Ask(b *Budget, now time.Time, r *Request, command T) (Ticket, Verdict) {
	if q.dropped && !mutant.On("dropped-stays") {
		return Ticket{}, Dropped
	}
	small := b.small(b.expect(r.Kind))
	// A command joins the list that holds the last command of its entity.
	to := &q.large
	if small && q.large.entities[r.Entity] == 0 {
		to = &q.small
	}
	if len(to.waiting) == 0 && q.small.entities[r.Entity] == 0 || mutant.On("reply-order") {
		if t, ok := b.Admit(&q.Account, r.Kind); ok {
			return t, Admitted
		}
	}
	if b.waiting >= b.cfg.Waiting || b.bytes+r.Size > b.cfg.WaitingBytes {
		return Ticket{}, Full
	}
	w := waiting[T]{Request: *r, command: command}
	if !r.Deadline.IsZero() {
		w.until = now.Add(time.Duration(b.cfg.WaitingShare * float64(r.Deadline.Sub(now))))
	}
	b.waiting++
	b.bytes += r.Size
	to.waiting = append(to.waiting, w)
	to.add(r.Entity)
	return Ticket{}, Waits
}

// Next admits the next waiting command for which there is capacity now.
func (q *Queue[T]) Next(b *Budget) (command T, t Ticket, ok bool) {
	if len(q.small.waiting) > 0 && !b.small(b.expect(q.small.waiting[0].Kind)) {
		q.enlarge(b)
	}
	for _, l := range []*list[T]{&q.small, &q.large} {
		if len(l.waiting) == 0 {
			continue
		}
		w := l.waiting[0]
		if l == &q.large && q.small.entities[w.Entity] > 0 {
			continue // it came after those
		}
		if t, ok = b.Admit(&q.Account, w.Kind); ok {
			l.waiting[0] = waiting[T]{}
			l.waiting = l.waiting[1:]
			q.removed(b, l, &w)
			return w.command, t, true
		}
	}
	return command, Ticket{}, false
}

// enlarge moves the commands whose replies have become large meanwhile to the large
// ones, each with those behind it that are for the same entity. They go before the
// large ones, because they came before those of their entities. All are moved in one
// pass: many may wait.
func (q *Queue[T]) enlarge(b *Budget) {
	var moved []waiting[T]
	grown := map[sharding.Entity]bool{}
	kept := q.small.waiting[:0]
	for _, w := range q.small.waiting {
		if !grown[w.Entity] && b.small(b.expect(w.Kind)) {
			kept = append(kept, w)
			continue
		}
		grown[w.Entity] = true
		moved = append(moved, w)
		q.small.remove(w.Entity)
		q.large.add(w.Entity)
	}
	clear(q.small.waiting[len(kept):])
	q.small.waiting = kept
	q.large.waiting = append(moved, q.large.waiting...)
}

// add counts a command for an entity.
func (l *list[T]) add(e sharding.Entity) {
	if l.entities == nil {
		l.entities = map[sharding.Entity]int{}
	}
	l.entities[e]++
}

// remove takes back one add.
func (l *list[T]) remove(e sharding.Entity) {
	if l.entities[e]--; l.entities[e] == 0 {
		delete(l.entities, e)
	}
}

// Lapsed is a command that has waited for too much of its time, with a ticket for
// its refusal.
type Lapsed[T any] struct {
	Command T
	Ticket  Ticket
}

// Late gives back the commands that have waited for too large a part of the time until
// their deadline, as far as there is room for refusals; the others stay. It looks at all that wait, so it is for
// every tick rather than for every command.
func (q *Queue[T]) Late(b *Budget, now time.Time, refusal *Kind) (lapsed []Lapsed[T]) {
	for _, l := range []*list[T]{&q.small, &q.large} {
		kept := l.waiting[:0]
		for i := range l.waiting {
			w := &l.waiting[i]
			if !w.until.IsZero() && !now.Before(w.until) && !mutant.On("reply-patience") {
				if t, ok := b.Admit(&q.Account, refusal); ok {
					lapsed = append(lapsed, Lapsed[T]{w.command, t})
					q.removed(b, l, w)
					continue
				}
			}
			kept = append(kept, *w)
		}
		clear(l.waiting[len(kept):])
		l.waiting = kept
	}
	return lapsed
}

// removed updates the counters for a command that no longer waits.
func (q *Queue[T]) removed(b *Budget, l *list[T], w *waiting[T]) {
	b.waiting--
	b.bytes -= w.Size
	l.remove(w.Entity)
}

// Len is how many commands wait.
func (q *Queue[T]) Len() int { return len(q.small.waiting) + len(q.large.waiting) }

// Drop clears the queue of a connection that has ended, and its unsent replies.
// What comes after that on the connection is dropped too: what waited before it may
// be sent again on another connection, and would come after it.
func (q *Queue[T]) Drop(b *Budget) {
	q.dropped = true
	for _, l := range []*list[T]{&q.small, &q.large} {
		for i := range l.waiting {
			b.waiting--
			b.bytes -= l.waiting[i].Size
		}
		*l = list[T]{}
	}
	b.Unsent(&q.Account, 0)
}

// Waiting is how many commands wait, on all connections.
func (b *Budget) Waiting() int { return b.waiting }
