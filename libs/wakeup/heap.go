package wakeup

import "container/heap"

// rowHeap is a heap of rows in the order of their sortKey, and then of their order.
type rowHeap []*row

func (h *rowHeap) push(r *row, sortKey int64, order uint64) {
	r.sortKey, r.order = sortKey, order
	heap.Push((*rows)(h), r)
}

// remove takes a row out of the heap, which must have it.
func (h *rowHeap) remove(r *row) { heap.Remove((*rows)(h), r.index) }

// rows is the heap as package heap wants it.
type rows []*row

func (h rows) Len() int { return len(h) }

func (h rows) Less(i, j int) bool {
	if h[i].sortKey != h[j].sortKey {
		return h[i].sortKey < h[j].sortKey
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
