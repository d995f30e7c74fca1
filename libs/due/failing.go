package due

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Pause is a pause after failures. It grows with each failure in a row.
type Pause struct {
	Times int       // failures in a row; a success sets it to 0
	Until time.Time // when the pause is over
}

// Fail counts a failure. The pause begins now, see [backoff.Jitter.Pause].
func (p *Pause) Fail(now time.Time, j *backoff.Jitter, least, most time.Duration) {
	p.Times++
	p.Until = now.Add(j.Pause(p.Times, least, most))
}

// Failure describes how an element has failed. The core embeds it in the element. Its times are by the clock of
// this process.
type Failure struct {
	Times int       // failures in a row; 0: the element is not failing
	Since time.Time // when it failed first
	// RetryAt is the time of the next attempt. If it is over, the attempt is in progress, or begins as soon
	// as the limits allow it. It is zero if the journal must be read first.
	RetryAt time.Time
	Code    sharding.Code // of the last failure
	Message string

	order uint64 // orders elements with the same RetryAt
	place int    // in Failing.retries
}

//lint:ignore U1000 Failing calls it through Element, which the check does not see
func (f *Failure) failure() *Failure { return f }

// Element is an element of a core that can fail: a pointer to a struct that embeds [Failure].
type Element[E any] interface {
	comparable
	failure() *Failure
	// Owner returns the entity by whose type and id failures are listed.
	Owner() sharding.Entity
	// Compare orders elements that have been failing for equally long.
	Compare(E) int
}

// Failing has the elements in memory that have failed and not succeeded since. Of these, it queues those
// whose next attempt waits for its time.
type Failing[E Element[E]] struct {
	all     map[E]struct{}
	retries priority.Queue[retry[E]]
	last    uint64 // the last Failure.order that was given
}

type retry[E Element[E]] struct{ e E }

// Before orders elements by the time at which they are retried, then by the order in which they have failed.
func (r retry[E]) Before(o retry[E]) bool {
	a, b := r.e.failure(), o.e.failure()
	return cmp.Or(a.RetryAt.Compare(b.RetryAt), cmp.Compare(a.order, b.order)) < 0
}

func (r retry[E]) Place() *int { return &r.e.failure().place }

// Fail counts a failure of an element. The caller also calls Retry, unless the element cannot be retried.
func (f *Failing[E]) Fail(e E, now time.Time, code sharding.Code, message string) {
	if f.all == nil {
		f.all = map[E]struct{}{}
	}
	f.all[e] = struct{}{}
	x := e.failure()
	if x.Times == 0 {
		x.Since = now
	}
	x.Times++
	x.Code, x.Message = code, message
}

// Retry queues an element that has failed until it is retried.
func (f *Failing[E]) Retry(e E, at time.Time) {
	f.last++
	x := e.failure()
	x.RetryAt, x.order = at, f.last
	f.retries.Push(retry[E]{e})
}

// Hasten changes the time at which a queued element is retried. Its order among others stays.
func (f *Failing[E]) Hasten(e E, at time.Time) {
	f.retries.Remove(retry[E]{e})
	e.failure().RetryAt = at
	f.retries.Push(retry[E]{e})
}

// Due removes from the queue the next element whose pause is over, and returns it; false: there is none.
func (f *Failing[E]) Due(now time.Time) (e E, ok bool) {
	if len(f.retries) == 0 || f.retries[0].e.failure().RetryAt.After(now) {
		return e, false
	}
	e = f.retries[0].e
	f.Unqueue(e)
	return e, true
}

// Alarm returns the time at which the next element is retried; zero: none waits.
func (f *Failing[E]) Alarm() (at time.Time) {
	if len(f.retries) > 0 {
		at = f.retries[0].e.failure().RetryAt
	}
	return at
}

// Unqueue removes an element from the queue. The element stays failing.
func (f *Failing[E]) Unqueue(e E) { f.retries.Remove(retry[E]{e}) }

// Clear forgets that an element has failed: it has succeeded, or leaves the memory.
func (f *Failing[E]) Clear(e E) {
	if f.Queued(e) {
		f.Unqueue(e)
	}
	delete(f.all, e)
	*e.failure() = Failure{}
}

// Queued reports whether an element waits to be retried.
func (f *Failing[E]) Queued(e E) bool { return f.retries.Has(retry[E]{e}) }

// Order orders two elements by when they failed last.
func Order[E Element[E]](a, b E) int { return cmp.Compare(a.failure().order, b.failure().order) }

// Len returns the number of elements that are failing.
func (f *Failing[E]) Len() int { return len(f.all) }

// Waiting returns the number of elements that wait to be retried.
func (f *Failing[E]) Waiting() int { return len(f.retries) }

// All yields the elements that are failing, in no order.
func (f *Failing[E]) All(yield func(E) bool) {
	for e := range f.all { // order-free: callers sort or count
		if !yield(e) {
			return
		}
	}
}

// First returns at most limit elements of an entity. If the entity has no id, it returns elements of the
// entity's type; if the entity is zero, of all types. The one that has been failing for longest comes first.
func (f *Failing[E]) First(of sharding.Entity, limit int) []E {
	return priority.First(func(yield func(E) bool) {
		for e := range f.all { // order-free: the first ones are taken
			if Matches(of, e.Owner()) && !yield(e) {
				return
			}
		}
	}, limit, func(a, b E) int {
		return cmp.Or(a.failure().Since.Compare(b.failure().Since), a.Compare(b))
	})
}

// Matches reports whether an entity is the wanted one, or of the wanted type if that has no id. Every
// entity matches the zero entity.
func Matches(want, e sharding.Entity) bool {
	return (want.Type == "" || want.Type == e.Type) && (want.ID == "" || want.ID == e.ID)
}

// Types counts the elements that are failing by the types of their owners.
func (f *Failing[E]) Types() map[sharding.EntityType]int {
	n := map[sharding.EntityType]int{}
	for e := range f.all { // order-free: counted
		n[e.Owner().Type]++
	}
	return n
}

// Check verifies the invariants. in are all elements in memory. An error means a bug.
func (f *Failing[E]) Check(in map[E]bool) error {
	for e := range in { // order-free: any error is a bug
		if _, known := f.all[e]; known != (e.failure().Times > 0) {
			return fmt.Errorf("due: an element of %s has failed %d times; listed as failing: %t", e.Owner(), e.failure().Times, known)
		}
	}
	for e := range f.all { // order-free: any error is a bug
		if !in[e] {
			return fmt.Errorf("due: a failing element of %s is not in memory", e.Owner())
		}
	}
	for _, r := range f.retries {
		if _, known := f.all[r.e]; !known {
			return errors.New("due: an element is to be retried, and is not failing")
		}
	}
	return nil
}

// Clone returns a copy. clone returns the copy of an element, always the same one.
func (f *Failing[E]) Clone(clone func(E) E) Failing[E] {
	c := Failing[E]{all: make(map[E]struct{}, len(f.all)), last: f.last}
	for e := range f.all { // order-free: copies
		c.all[clone(e)] = struct{}{}
	}
	c.retries = Map(f.retries, func(r retry[E]) retry[E] { return retry[E]{clone(r.e)} })
	return c
}

// Map returns a new list, with f applied to each element of a list.
func Map[E, F any](list []E, f func(E) F) (out []F) {
	for _, e := range list {
		out = append(out, f(e))
	}
	return out
}

// Earliest returns the earliest of some times; zero times do not count.
func Earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Left returns the time that is left until at, at least 0; -1 if at is zero.
func Left(now, at time.Time) time.Duration {
	if at.IsZero() {
		return -1
	}
	return max(0, at.Sub(now))
}
