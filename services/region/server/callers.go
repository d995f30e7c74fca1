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

// replies gathers the answers of one batch for one sink.
type replies struct {
	to     Sink
	list   []link.Answer
	listed bool
}

// caller is where the answer of a command goes.
type caller struct {
	replies *replies
	corr    uint64
	arrived time.Time
	entity  sharding.Entity
	command string
	trace   string
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

// repliesTo is where answers for a sink gather. Commands come many at a time
// from one sink, so the last one is kept at hand.
func (s *Runner) repliesTo(to Sink) *replies {
	if s.lastReplies != nil && s.lastReplies.to == to {
		return s.lastReplies
	}
	r := s.replies[to]
	if r == nil {
		r = &replies{to: to}
		s.replies[to] = r
	}
	s.lastReplies = r
	return r
}

// answer ends a command towards its sender. Accepted tells have been answered
// before; timers never asked.
func (s *Runner) answer(r turn.RequestID, a link.Answer) {
	c, ok := s.callers.take(r)
	if !ok {
		return
	}
	a.Corr = c.corr
	if !c.replies.listed {
		c.replies.listed = true
		s.answered = append(s.answered, c.replies)
	}
	c.replies.list = append(c.replies.list, a)
	if a.NotMine == nil {
		s.observe(&c, &a.Reply)
	}
}

// flushAnswers sends what the batch has answered, one call per sink. Answers to
// one that has ended go nowhere: its gateway knows.
func (s *Runner) flushAnswers() {
	for _, r := range s.answered {
		_ = r.to.SendBatch(r.list)
		clear(r.list)
		r.list, r.listed = r.list[:0], false
	}
	clear(s.answered)
	s.answered = s.answered[:0]
}
