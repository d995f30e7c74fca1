package server

import (
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Sink receives answers: the region's end of a link, or a sender in this process.
type Sink interface {
	// SendBatch must not wait; the slice is only valid during the call. An error means that the receiver is
	// gone.
	SendBatch([]link.Answer) error
	// Unsent returns the size of the answers that the receiver has not taken yet, in bytes.
	Unsent() int
	// Ended reports whether the receiver is gone. Commands that the sink has brought and that still wait are
	// dropped then: they may be brought again.
	Ended() bool
	// Waiting notifies the sink that the goroutine which brings commands is about to wait. Answers that the
	// sink still holds back must be sent now.
	Waiting()
}

// outgoing gathers answers for one sink.
type outgoing struct {
	to    Sink
	list  []link.Answer
	ended []ended // the commands that list answers
}

// ended is a command that was answered.
type ended struct {
	ticket replies.Ticket
	size   int // of its reply, if later replies are expected to be similar; else 0
}

// caller holds the destination of the answer to a command.
type caller struct {
	to      Sink
	number  uint64
	arrived time.Time
	entity  sharding.Entity
	command string
	trace   string
	tell    bool // the command is answered when it is accepted
	ticket  replies.Ticket
}

// callers holds the callers that wait for an answer. A request id consists of the number of
// the caller's place and of how often that place has been used.
type callers struct {
	places []place
	free   []uint32
}

type place struct {
	caller
	uses uint32
	used bool
}

func (c *callers) add(waiting caller) turn.RequestID {
	var n uint32
	if last := len(c.free) - 1; last >= 0 {
		n, c.free = c.free[last], c.free[:last]
	} else {
		n = uint32(len(c.places))
		c.places = append(c.places, place{})
	}
	p := &c.places[n]
	p.caller, p.used = waiting, true
	p.uses++
	return turn.RequestID(p.uses)<<32 | turn.RequestID(n)
}

// find returns the caller of a request, nil if the request was answered before. The caller
// stays in its place until remove is called.
func (c *callers) find(r turn.RequestID) *caller {
	n := uint32(r)
	if uint64(n) >= uint64(len(c.places)) {
		return nil
	}
	p := &c.places[n]
	if !p.used || p.uses != uint32(r>>32) {
		return nil
	}
	return &p.caller
}

// remove frees the place of a caller that find has returned.
func (c *callers) remove(r turn.RequestID) {
	p := &c.places[uint32(r)]
	p.caller, p.used = caller{}, false
	c.free = append(c.free, uint32(r))
}

// answer sends a command's answer to its caller. It does nothing if there is none: accepted
// tells have been answered before, and timers have no caller.
func (s *shardLoop) answer(r turn.RequestID, a link.Answer) {
	c := s.callers.find(r)
	if c == nil {
		return
	}
	defer s.callers.remove(r)
	a.Number = c.number
	end := ended{ticket: c.ticket}
	if a.NotMine == nil {
		// What becomes of an accepted tell comes later, as turn.UnwatchedDone.
		accepted := c.tell && a.Reply.Outcome == sharding.Executed
		if !accepted {
			s.observe(c, &a.Reply)
		}
		size := replies.Size(&a.Reply)
		if a.Reply.Outcome == sharding.Executed && a.Reply.Code == "" && !accepted {
			end.size = size
		}
		if size > end.ticket.Expected() && len(a.Reply.Payload) > 0 && !s.inbox.grow(&end.ticket, size) {
			a.Reply = replies.NoRoom(&a.Reply, s.readOnly(c), "the region owes too many (region.reply_bytes)")
		}
	}
	s.gather(s.worker, c.to, a, end)
}

// readOnly reports whether a command changes nothing.
func (s *shardLoop) readOnly(c *caller) bool {
	for i := range s.descs { // rare enough to look
		if d := &s.descs[i].Desc; d.Type == c.entity.Type {
			command, ok := d.Command(c.command)
			return ok && command.ReadOnly
		}
	}
	return false
}

// maxSinks is the maximum number of sinks that a worker gathers answers for at a time. An inline runner mostly
// gathers answers for its own link, a worker of the pool for many links.
const maxSinks = 16

// gather keeps an answer until the core is unlocked. Many answers in a row are for one sink.
func (s *shardLoop) gather(w *worker, to Sink, a link.Answer, end ended) {
	n := len(w.Local.out)
	for i := n - 1; i >= 0; i-- {
		if o := &w.Local.out[i]; o.to == to {
			o.list, o.ended = append(o.list, a), append(o.ended, end)
			return
		}
	}
	if n == maxSinks {
		s.send(w)
		n = 0
	}
	if n < cap(w.Local.out) {
		w.Local.out = w.Local.out[:n+1]
	} else {
		w.Local.out = append(w.Local.out, outgoing{})
	}
	o := &w.Local.out[n]
	o.to, o.list, o.ended = to, append(o.list, a), append(o.ended, end)
}

// send sends the gathered answers, with one call per sink. Answers to a sink that has ended
// are lost: its gateway knows that.
func (s *shardLoop) send(w *worker) {
	for i := range w.Local.out {
		o := &w.Local.out[i]
		_ = o.to.SendBatch(o.list)
		if c := s.inbox.markAnswered(o.to, o.ended).without(s.index); c != 0 {
			s.wakeCores(c)
		}
		clear(o.list)
		clear(o.ended)
		o.to, o.list, o.ended = nil, o.list[:0], o.ended[:0]
	}
	w.Local.out = w.Local.out[:0]
}
