package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Virtual time is counted in nanoseconds from the start of a run.
const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// event is something that happens at a virtual instant. Events of one instant
// happen in the order in which they were scheduled.
type event struct {
	at  int64
	ord uint64
	fn  func()
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.ord < o.ord
}

// scheduler is virtual time: a binary heap of events.
type scheduler struct {
	now   int64
	ord   uint64
	steps int
	hash  uint64
	heap  []event
}

// after schedules fn in d nanoseconds.
func (s *scheduler) after(d int64, fn func()) {
	s.ord++
	s.heap = append(s.heap, event{at: s.now + max(d, 0), ord: s.ord, fn: fn})
	h, i := s.heap, len(s.heap)-1
	for i > 0 {
		p := (i - 1) / 2
		if h[p].before(&h[i]) {
			break
		}
		h[p], h[i] = h[i], h[p]
		i = p
	}
}

func (s *scheduler) pop() event {
	h := s.heap
	top, n := h[0], len(h)-1
	h[0], h[n] = h[n], event{}
	h = h[:n]
	s.heap = h
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if r := c + 1; r < n && h[r].before(&h[c]) {
			c = r
		}
		if h[i].before(&h[c]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	return top
}

// run lets everything happen up to an instant, or until stop says so.
func (s *scheduler) run(until int64, stop func() bool) {
	for len(s.heap) > 0 && s.heap[0].at <= until && !stop() {
		e := s.pop()
		s.now = e.at
		s.steps++
		s.mix(uint64(e.at) ^ e.ord<<40)
		e.fn()
	}
	if !stop() {
		s.now = max(s.now, until)
	}
}

// mix adds a number to the hash of the trace.
func (s *scheduler) mix(v uint64) { s.hash = (s.hash ^ v) * 1099511628211 }

// dice is one stream of randomness. Every purpose has a stream of its own, so
// that a change in one does not shift the draws of the others.
type dice struct{ *rand.Rand }

func newDice(seed uint64, purpose string) dice {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return dice{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// chance is true with probability p.
func (d dice) chance(p float64) bool { return p > 0 && d.Float64() < p }

// between draws evenly from [lo, hi).
func (d dice) between(lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + d.Int64N(hi-lo)
}

// exp draws a delay with the given mean, at most twenty times as long.
func (d dice) exp(mean int64) int64 {
	return int64(min(d.ExpFloat64(), 20) * float64(mean))
}
