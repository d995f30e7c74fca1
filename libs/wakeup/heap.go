package wakeup

import (
	"cmp"
	"container/heap"

	"github.com/roost-cluster/roost/libs/mutant"
)

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

// startHeap orders starts by when they are tried again, then by when they were put in.
type startHeap []*start

func (h *startHeap) push(s *start) { heap.Push((*starts)(h), s) }

// remove takes a start out that is in the heap.
func (h *startHeap) remove(s *start) { heap.Remove((*starts)(h), s.index) }

// starts is the heap as package heap wants it.
type starts []*start

func (h starts) Len() int { return len(h) }

func (h starts) Less(i, j int) bool {
	if !h[i].retryAt.Equal(h[j].retryAt) {
		return h[i].retryAt.Before(h[j].retryAt)
	}
	return h[i].order < h[j].order
}

func (h starts) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is that of heap.Interface.
func (h *starts) Push(x any) {
	s := x.(*start)
	s.index = len(*h)
	*h = append(*h, s)
}

// Pop is that of heap.Interface.
func (h *starts) Pop() any {
	old := *h
	last := len(old) - 1
	s := old[last]
	old[last] = nil
	*h = old[:last]
	return s
}

// shardHeap orders shards by the activity of the first entity of their pages, the latest first.
type shardHeap []*startShard

func (h *shardHeap) push(s *startShard) { heap.Push((*readyShards)(h), s) }

// remove takes a shard out that is in the heap.
func (h *shardHeap) remove(s *startShard) { heap.Remove((*readyShards)(h), s.index); s.index = -1 }

// readyShards is the heap as package heap wants it.
type readyShards []*startShard

func (h readyShards) Len() int { return len(h) }

func (h readyShards) Less(i, j int) bool {
	a, b := &h[i].page[0], &h[j].page[0]
	if mutant.On("activity-order") {
		return a.Due > b.Due
	}
	return cmp.Or(cmp.Compare(a.Due, b.Due), a.Entity.Compare(b.Entity)) < 0
}

func (h readyShards) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is that of heap.Interface.
func (h *readyShards) Push(x any) {
	s := x.(*startShard)
	s.index = len(*h)
	*h = append(*h, s)
}

// Pop is that of heap.Interface.
func (h *readyShards) Pop() any {
	old := *h
	last := len(old) - 1
	s := old[last]
	old[last] = nil
	*h = old[:last]
	return s
}
