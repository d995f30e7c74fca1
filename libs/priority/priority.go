// Package priority has a priority queue that can remove every element, not only the first one.
package priority

import "container/heap"

// Element is an element of a [Queue], a pointer as a rule. While it is in a queue, nothing that
// Before reads may change.
type Element[E any] interface {
	// Before reports whether the element comes out before the other one. Of two different
	// elements one comes before the other, so that equal queues give equal orders.
	Before(other E) bool
	// Place points to where the queue notes the element's index: -1 once it was removed.
	Place() *int
}

// Queue is a heap, whose first element comes out next. Its zero value is empty. An element
// is in at most one queue at a time.
type Queue[E Element[E]] []E

// Push puts an element into the queue, which must not have it.
func (q *Queue[E]) Push(e E) { heap.Push((*items[E])(q), e) }

// Remove takes an element out of the queue, which must have it.
func (q *Queue[E]) Remove(e E) { heap.Remove((*items[E])(q), *e.Place()) }

// Has reports whether the queue has the element.
func (q Queue[E]) Has(e E) bool {
	i := *e.Place()
	return 0 <= i && i < len(q) && q[i].Place() == e.Place()
}

// Find returns the first element that ok accepts. It looks only at elements that ok does not accept, and at their
// children in the heap.
func (q Queue[E]) Find(ok func(E) bool) (first E, found bool) {
	for look := []int{0}; len(look) > 0; {
		i := look[len(look)-1]
		look = look[:len(look)-1]
		switch {
		case i >= len(q) || found && first.Before(q[i]):
		case ok(q[i]):
			first, found = q[i], true
		default:
			look = append(look, 2*i+1, 2*i+2)
		}
	}
	return first, found
}

// items is a queue as package heap wants it.
type items[E Element[E]] []E

func (h items[E]) Len() int { return len(h) }

func (h items[E]) Less(i, j int) bool { return h[i].Before(h[j]) }

func (h items[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].Place(), *h[j].Place() = i, j
}

// Push implements heap.Interface.
func (h *items[E]) Push(x any) {
	e := x.(E)
	*e.Place() = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *items[E]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	var none E
	(*h)[last] = none
	*h = (*h)[:last]
	*e.Place() = -1
	return e
}
