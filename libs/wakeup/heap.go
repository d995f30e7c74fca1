package wakeup

import "container/heap"

// rowHeap orders rows by their places, then by when they were put in.
type rowHeap []*row

func (h *rowHeap) push(r *row, at int64, order uint64) {
	r.at, r.order = at, order
	heap.Push((*rows)(h), r)
}

// remove takes a row out that is in the heap.
func (h *rowHeap) remove(r *row) { heap.Remove((*rows)(h), r.index) }

// rows is the heap as package heap wants it.
type rows []*row

func (h rows) Len() int { return len(h) }

func (h rows) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].order < h[j].order
}

func (h rows) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is that of heap.Interface.
func (h *rows) Push(x any) {
	r := x.(*row)
	r.index = len(*h)
	*h = append(*h, r)
}

// Pop is that of heap.Interface.
func (h *rows) Pop() any {
	old := *h
	last := len(old) - 1
	r := old[last]
	old[last] = nil
	*h = old[:last]
	return r
}
