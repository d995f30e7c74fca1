package server

import (
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Sink is where answers go: the end of a link, or who sent commands in this
// process. SendBatch must not wait; the slice is only valid during the call. An
// error says that nobody is there any more.
type Sink interface {
	SendBatch([]link.Answer) error
}

// outgoing gathers answers for one sink.
type outgoing struct {
	to   Sink
	list []link.Answer
}

// caller is where the answer of a command goes.
type caller struct {
	to      Sink
	corr    uint64
	arrived time.Time
	entity  sharding.Entity
	command string
	trace   string
	tell    bool // gets its answer when it is accepted
}

// callers holds those who wait for an answer. The name of a request is the
// number of its place and how often that was used before.
type callers struct {
	places []place
	free   []uint32
}

type place struct {
	caller
	uses uint32
	used bool
}

func (c *callers) add(who caller) turn.RequestID {
	var n uint32
	if last := len(c.free) - 1; last >= 0 {
		n, c.free = c.free[last], c.free[:last]
	} else {
		n = uint32(len(c.places))
		c.places = append(c.places, place{})
	}
	p := &c.places[n]
	p.caller, p.used = who, true
	p.uses++
	return turn.RequestID(p.uses)<<32 | turn.RequestID(n)
}

// take gives a caller back and frees its place; false if it was answered
// before.
func (c *callers) take(r turn.RequestID) (caller, bool) {
	n := uint32(r)
	if uint64(n) >= uint64(len(c.places)) {
		return caller{}, false
	}
	p := &c.places[n]
	if !p.used || p.uses != uint32(r>>32) {
		return caller{}, false
	}
	who := p.caller
	p.caller, p.used = caller{}, false
	c.free = append(c.free, n)
	return who, true
}

// answer ends a command towards its sender. Accepted tells have been answered
// before; timers never asked.
func (s *Runner) answer(r turn.RequestID, a link.Answer) {
	c, ok := s.callers.take(r)
	if !ok {
		return
	}
	a.Corr = c.corr
	s.worker.gather(c.to, a)
	// What becomes of an accepted tell comes later, as turn.Told.
	if accepted := c.tell && a.Reply.Outcome == sharding.OK; a.NotMine == nil && !accepted {
		s.observe(&c, &a.Reply)
	}
}

// maxSinks is how many sinks a worker gathers answers for at a time. One that
// brought commands mostly gathers its own, one of the crew those of many.
const maxSinks = 16

// gather keeps an answer until the core is let go. Many in a row are for one sink.
func (w *worker) gather(to Sink, a link.Answer) {
	n := len(w.out)
	for i := n - 1; i >= 0; i-- {
		if o := &w.out[i]; o.to == to {
			o.list = append(o.list, a)
			return
		}
	}
	if n == maxSinks {
		w.send()
		n = 0
	}
	if n < cap(w.out) {
		w.out = w.out[:n+1]
	} else {
		w.out = append(w.out, outgoing{})
	}
	o := &w.out[n]
	o.to, o.list = to, append(o.list, a)
}

// send sends what was gathered, one call per sink. Answers to one that has ended
// go nowhere: its gateway knows.
func (w *worker) send() {
	for i := range w.out {
		o := &w.out[i]
		_ = o.to.SendBatch(o.list)
		clear(o.list)
		o.to, o.list = nil, o.list[:0]
	}
	w.out = w.out[:0]
}
