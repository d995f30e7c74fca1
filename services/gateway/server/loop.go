package server

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// item is one thing for the loop to process: one of the four fields is set.
type item struct {
	in     gateway.Input
	call   *call          // a command to submit
	do     func()         // runs inside the loop, and may inspect or step the core
	answer gateway.Answer // if its Attempt is set
}

// answers adds the answers that a link has read to the inbox.
func (s *Server) answers(as []link.Answer) {
	s.inbox.Fill(func(items []item) []item {
		for i := range as {
			a := &as[i]
			if a.NotMine != nil {
				items = append(items, item{in: gateway.NotMine{Attempt: gateway.Attempt(a.Corr), Refused: a.NotMine.Refused, Row: a.NotMine.Row}})
			} else {
				items = append(items, item{answer: gateway.Answer{Attempt: gateway.Attempt(a.Corr), Reply: a.Reply}})
			}
		}
		return items
	})
}

var (
	errStopping = sharding.Reject(sharding.Unavailable, "this gateway is stopping")
	errFull     = sharding.Reject(sharding.ResourceExhausted, "too many commands wait in this gateway")
)

// tickEvery is the interval of ticks, about the core's shortest interval.
const tickEvery = 20 * time.Millisecond

// takeBatch steps each item of a batch. It never waits.
func (s *Server) takeBatch(items []item, tick bool) {
	if n := s.delivered.Swap(0); n != 0 {
		s.step(gateway.Delivered{Bytes: int(n)})
	}
	for i := range items {
		s.takeIn(&items[i])
	}
	if tick {
		s.shedder.forget(time.Now())
		s.step(gateway.Tick{})
	}
	s.flush()
	if s.drained != nil && len(s.calls) == 0 {
		close(s.drained)
		s.drained = nil
	}
}

func (s *Server) takeIn(it *item) {
	switch {
	case it.call != nil:
		s.calls[it.call.id] = it.call
		in := gateway.Submit{Request: it.call.id, Env: &it.call.env}
		s.performAll(s.core.Submit(time.Now(), &in, s.outs[:0]))
	case it.answer.Attempt != 0:
		s.performAll(s.core.Answer(time.Now(), &it.answer, s.outs[:0]))
	case it.do != nil:
		it.do()
	default:
		s.step(it.in)
	}
}

func (s *Server) step(in gateway.Input) {
	s.performAll(s.core.Step(time.Now(), in, s.outs[:0]))
}

// performAll performs the outputs of a step, and then steps the core with what has
// happened to sends and links meanwhile.
func (s *Server) performAll(outs []gateway.Output) {
	s.performOnce(outs)
	for in, ok := s.sender.Next(); ok; in, ok = s.sender.Next() {
		s.performOnce(s.core.Step(time.Now(), in, s.outs[:0]))
	}
}

// performOnce performs the outputs of a step. Their slice is reused.
func (s *Server) performOnce(outs []gateway.Output) {
	for _, o := range outs {
		s.perform(o)
	}
	clear(outs)
	s.outs = outs
}

func (s *Server) perform(o gateway.Output) {
	switch o := o.(type) {
	case gateway.SendCommand:
		s.sendCommand(&o)
	case gateway.Finish:
		if c := s.calls[o.Request]; c != nil {
			delete(s.calls, o.Request)
			s.observeFinish(c, &o)
			c.end(&o)
		}
	case gateway.Connect:
		s.connect(o.Region)
	case gateway.Disconnect:
		s.disconnect(o.Region)
	case gateway.Send:
		s.send(o)
	}
}

// endAll ends all calls and links when the loop ends.
func (s *Server) endAll() {
	s.inbox.Close()
	items := s.inbox.Take(nil)
	for i := range items {
		if c := items[i].call; c != nil {
			c.end(&gateway.Finish{Reply: errStopping})
		}
	}
	for id, c := range s.calls { // order-free: one message each
		delete(s.calls, id)
		c.end(&gateway.Finish{Reply: s.unanswered(&c.env, sharding.Unavailable, "this gateway stopped before the answer came")})
	}
	var closing sync.WaitGroup
	for _, peer := range s.links { // order-free: all at once
		closing.Go(peer.Close)
	}
	closing.Wait()
}

// put makes the loop run f.
func (s *Server) put(f func()) { s.inbox.Put(item{do: f}) }

// inside runs f inside the loop and waits for it.
func (s *Server) inside(ctx context.Context, f func() error) error {
	return loop.Ask(ctx, s.ctx.Done(), func(f func()) error { s.put(f); return nil }, f)
}
