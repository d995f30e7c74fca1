package server

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// item is one thing for the loop to take in: one of the four.
type item struct {
	in     gateway.Input
	call   *call          // a command to submit
	do     func()         // look at the core from inside the loop, or step it
	answer gateway.Answer // if it has an attempt
}

// inbox gathers what the loop will take in as one batch. Commands are refused
// while it is full; answers and results of our own calls never are, since no
// more of them can come than was asked for.
type inbox struct {
	mu     sync.Mutex
	items  []item
	limit  int
	closed bool
	wake   chan struct{}
}

func newInbox(limit int) *inbox { return &inbox{limit: limit, wake: make(chan struct{}, 1)} }

// signal wakes the loop if it is not awake already: was is the number of items
// before.
func (b *inbox) signal(was int) {
	if was > 0 {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// put adds items; after the end of the loop they are dropped.
func (b *inbox) put(items ...item) {
	b.mu.Lock()
	was := len(b.items)
	if !b.closed {
		b.items = append(b.items, items...)
	}
	b.mu.Unlock()
	b.signal(was)
}

// answers adds what a link has read.
func (b *inbox) answers(as []link.Answer) {
	b.mu.Lock()
	was := len(b.items)
	for i := range as {
		if b.closed {
			break
		}
		a := &as[i]
		if a.NotMine != nil {
			b.items = append(b.items, item{in: gateway.NotMine{Attempt: gateway.Attempt(a.Corr), Refused: a.NotMine.Refused, Row: a.NotMine.Row}})
		} else {
			b.items = append(b.items, item{answer: gateway.Answer{Attempt: gateway.Attempt(a.Corr), Reply: a.Reply}})
		}
	}
	b.mu.Unlock()
	b.signal(was)
}

// submit adds commands, all or none, next to each other in their order. It
// refuses while the inbox is full, and after the end.
func (b *inbox) submit(calls ...*call) *sharding.Reply {
	b.mu.Lock()
	was := len(b.items)
	switch {
	case b.closed:
		b.mu.Unlock()
		return &errStopping
	case was+len(calls) > b.limit:
		b.mu.Unlock()
		return &errFull
	}
	for _, c := range calls {
		b.items = append(b.items, item{call: c})
	}
	b.mu.Unlock()
	b.signal(was)
	return nil
}

var (
	errStopping = sharding.Reject(sharding.Unavailable, "this gateway is stopping")
	errFull     = sharding.Reject(sharding.ResourceExhausted, "too many commands wait in this gateway")
)

// take swaps the gathered items for an empty slice.
func (b *inbox) take(empty []item) []item {
	b.mu.Lock()
	items := b.items
	b.items = empty[:0]
	b.mu.Unlock()
	return items
}

// close makes the inbox take no more.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}

// tickEvery is how often the core is told that time passes: of the order of
// its finest interval.
const tickEvery = 20 * time.Millisecond

// loop owns the core: it drains the inbox as a batch, steps each item, and
// performs the outputs. Nothing waits inside it.
func (s *Server) loop(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	var spare []item
	for {
		tick := false
		select {
		case <-ctx.Done():
			s.cut()
			return
		case <-s.inbox.wake:
		case <-ticker.C:
			tick = true
		}
		if n := s.delivered.Swap(0); n != 0 {
			s.step(gateway.Delivered{Bytes: int(n)})
		}
		items := s.inbox.take(spare)
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
		clear(items)
		spare = items
	}
}

func (s *Server) takeIn(it *item) {
	switch {
	case it.call != nil:
		s.calls[it.call.id] = it.call
		s.submission.Request, s.submission.Env = it.call.id, it.call.env
		s.performAll(s.core.Submit(time.Now(), &s.submission, s.outs[:0]))
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

// performAll performs the outputs of a step, then tells the core what became of
// sends and links meanwhile.
func (s *Server) performAll(outs []gateway.Output) {
	s.performOnce(outs)
	for in, ok := s.sender.Next(); ok; in, ok = s.sender.Next() {
		s.performOnce(s.core.Step(time.Now(), in, s.outs[:0]))
	}
}

// performOnce performs the outputs of a step. Their slice is used again.
func (s *Server) performOnce(outs []gateway.Output) {
	for _, o := range outs {
		s.perform(o)
	}
	clear(outs)
	s.outs = outs
}

func (s *Server) perform(o gateway.Output) {
	switch o := o.(type) {
	case gateway.Send:
		s.send(&o)
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
	case gateway.Watch:
		go s.watch(o)
	case gateway.GetShardHome:
		s.outbox.Send(sharding.NodeID{Addr: o.To}, control.GetShardHome{Shard: o.Shard, Refused: o.Refused})
	}
}

// cut ends whatever is left when the loop ends.
func (s *Server) cut() {
	s.inbox.close()
	items := s.inbox.take(nil)
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

// look runs f inside the loop and waits for it.
func (s *Server) look(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	s.inbox.put(item{do: func() { done <- f() }})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return context.Canceled
	}
}
