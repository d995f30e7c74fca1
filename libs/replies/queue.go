package replies

import (
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Queue holds the commands of one connection that wait for room for their replies.
// Commands for one entity keep their order. Beyond that, those with a large reply
// keep theirs, so that the largest is not passed for ever, and those with a small
// one pass them: there is room that is kept for them.
type Queue[T any] struct {
	Account
	small, large list[T]
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

// Verdict is what becomes of a command.
type Verdict int

const (
	// Admitted commands have a ticket.
	Admitted Verdict = iota
	// Waits says that the queue has the command.
	Waits
	// Full says that too much waits already: the command is the caller's.
	Full
)

// Ask takes a command on, or lets it wait.
func (q *Queue[T]) Ask(b *Budget, now time.Time, r *Request, command T) (Ticket, Verdict) {
	small := b.small(b.expect(r.Kind))
	// Who waits for its entity waits where the last of the entity does.
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
	to.add(r.Entity, 1)
	return Ticket{}, Waits
}

// Next takes on the next command that waits and for which there is room now.
func (q *Queue[T]) Next(b *Budget) (command T, t Ticket, ok bool) {
	for len(q.small.waiting) > 0 && !b.small(b.expect(q.small.waiting[0].Kind)) {
		q.enlarge(q.small.waiting[0].Entity)
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
			q.left(b, l, &w)
			return w.command, t, true
		}
	}
	return command, Ticket{}, false
}

// enlarge moves what waits for an entity to the large ones: replies of its kind have
// become large meanwhile. It goes before them, for it came before those of its entity.
func (q *Queue[T]) enlarge(e sharding.Entity) {
	var moved []waiting[T]
	kept := q.small.waiting[:0]
	for _, w := range q.small.waiting {
		if w.Entity == e {
			moved = append(moved, w)
		} else {
			kept = append(kept, w)
		}
	}
	clear(q.small.waiting[len(kept):])
	q.small.waiting = kept
	delete(q.small.entities, e)
	q.large.add(e, len(moved))
	q.large.waiting = append(moved, q.large.waiting...)
}

// add counts commands for an entity.
func (l *list[T]) add(e sharding.Entity, n int) {
	if l.entities == nil {
		l.entities = map[sharding.Entity]int{}
	}
	l.entities[e] += n
}

// Late gives back a command that has waited for too much of its time, with a ticket
// for a refusal: there is none to give back while there is no room for that.
func (q *Queue[T]) Late(b *Budget, now time.Time, refusal *Kind) (command T, t Ticket, ok bool) {
	for _, l := range []*list[T]{&q.small, &q.large} {
		for i := range l.waiting {
			w := l.waiting[i]
			if w.until.IsZero() || now.Before(w.until) || mutant.On("reply-patience") {
				continue
			}
			if t, ok = b.Admit(&q.Account, refusal); !ok {
				return command, Ticket{}, false
			}
			copy(l.waiting[i:], l.waiting[i+1:])
			last := len(l.waiting) - 1
			l.waiting[last] = waiting[T]{}
			l.waiting = l.waiting[:last]
			q.left(b, l, &w)
			return w.command, t, true
		}
	}
	return command, Ticket{}, false
}

// left forgets a command that does not wait any more.
func (q *Queue[T]) left(b *Budget, l *list[T], w *waiting[T]) {
	b.waiting--
	b.bytes -= w.Size
	if l.entities[w.Entity]--; l.entities[w.Entity] == 0 {
		delete(l.entities, w.Entity)
	}
}

// Len is how many commands wait.
func (q *Queue[T]) Len() int { return len(q.small.waiting) + len(q.large.waiting) }

// Drop ends a connection that has ended: what waits is gone, and nothing is unsent.
func (q *Queue[T]) Drop(b *Budget) {
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
