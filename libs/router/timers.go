package router

import (
	"cmp"
	"container/heap"
	"time"
)

// timer wakes a request or a shard. A zero pos means that it is not set.
type timer struct {
	at      time.Time
	pos     int // index in the heap, plus one
	request *request
	shard   *shard
}

// timerHeap holds the set timers, the next one first. The order is total, so
// that equal states wake up equally.
type timerHeap struct{ list []*timer }

// set starts a timer or moves it.
func (h *timerHeap) set(t *timer, at time.Time) {
	if t.pos != 0 && t.at.Equal(at) {
		return
	}
	t.at = at
	if t.pos == 0 {
		heap.Push(h, t)
	} else {
		heap.Fix(h, t.pos-1)
	}
}

func (h *timerHeap) stop(t *timer) {
	if t.pos != 0 {
		heap.Remove(h, t.pos-1)
	}
}

// due returns the next timer if it is due. The caller must stop it or set it to a later
// time.
func (h *timerHeap) due(now time.Time) *timer {
	if len(h.list) == 0 || now.Before(h.list[0].at) {
		return nil
	}
	return h.list[0]
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (h *timerHeap) Len() int { return len(h.list) }

func (h *timerHeap) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	if a.shard != nil && b.shard != nil {
		return a.shard.id.Compare(b.shard.id) < 0
	}
	if a.shard != nil || b.shard != nil {
		return a.shard != nil
	}
	return cmp.Less(a.request.order, b.request.order)
}

func (h *timerHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].pos, h.list[j].pos = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	h.list = append(h.list, t)
	t.pos = len(h.list)
}

func (h *timerHeap) Pop() any {
	last := len(h.list) - 1
	t := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	t.pos = 0
	return t
}
