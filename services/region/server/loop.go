package server

import (
	"context"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// item is one thing for the loop to take in.
type item struct {
	in   region.Input
	from *caller // with Command: who waits for the answer
	slot *slot   // with Loaded: the instance that was made
	do   func()  // instead of in: look at the core from inside the loop
	inc  turn.Incarnation
}

// caller is where the answer of a command goes.
type caller struct {
	conn    *link.Conn
	corr    uint64
	arrived time.Time
	entity  sharding.Entity
	command string
	trace   string
}

// inbox gathers what the loop will take in as one batch. What comes from
// links waits while it is full; answers of our own slow jobs never do.
type inbox struct {
	mu    sync.Mutex
	room  *sync.Cond
	items []item
	limit int
	over  bool // nobody takes any more
	wake  chan struct{}
}

func newInbox(limit int) *inbox {
	b := &inbox{limit: limit, wake: make(chan struct{}, 1)}
	b.room = sync.NewCond(&b.mu)
	return b
}

func (b *inbox) put(items ...item) {
	b.mu.Lock()
	b.items = append(b.items, items...)
	b.mu.Unlock()
	b.signal()
}

// putWaiting blocks while the inbox is full: that is how a region holds back
// its gateways.
func (b *inbox) putWaiting(items []item) {
	b.mu.Lock()
	for len(b.items) >= b.limit && !b.over {
		b.room.Wait()
	}
	b.items = append(b.items, items...)
	b.mu.Unlock()
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take swaps the gathered items for an empty slice.
func (b *inbox) take(empty []item) []item {
	b.mu.Lock()
	items := b.items
	b.items = empty[:0]
	b.mu.Unlock()
	b.room.Broadcast()
	return items
}

// end lets go of everybody who waits: nothing is taken any more.
func (b *inbox) end() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.room.Broadcast()
}

// tickEvery is how often the core is told that time passes: finer than any of
// its intervals.
const tickEvery = 20 * time.Millisecond

// loop owns the core: it drains the inbox as a batch, steps each item, and
// performs the outputs. Nothing waits inside it.
func (s *Server) loop(ctx context.Context) error {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	defer s.inbox.end()
	var spare []item
	for {
		tick := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.inbox.wake:
		case <-ticker.C:
			tick = true
		}
		items := s.inbox.take(spare)
		for i := range items {
			s.takeIn(&items[i])
		}
		if tick {
			s.step(region.Tick{})
		}
		s.flushAnswers()
		clear(items)
		spare = items
	}
}

func (s *Server) takeIn(it *item) {
	if it.do != nil {
		it.do()
		return
	}
	if it.from != nil {
		c := it.in.(region.Command)
		s.lastRequest++
		c.Request = s.lastRequest
		s.callers[c.Request] = it.from
		s.step(c)
		return
	}
	if it.slot != nil {
		s.slots[it.inc] = it.slot
	}
	s.step(it.in)
}

func (s *Server) step(in region.Input) {
	s.outs = s.core.Step(time.Now(), in, s.outs[:0])
	for _, o := range s.outs {
		s.perform(o)
	}
	clear(s.outs)
}

func (s *Server) perform(o region.Output) {
	switch o := o.(type) {
	case region.Entity:
		s.performTurn(o.Output)
	case region.NotMine:
		s.answer(o.Request, link.Answer{NotMine: &link.NotMine{Row: o.Row, Refused: o.Refused}})
	case region.Refuse:
		s.answer(o.Request, link.Answer{Reply: o.Reply})
	case region.Claim:
		s.claim(o)
	case region.Watch:
		go s.watch(o)
	case region.Register:
		go s.register(o)
	case region.GracefulShutdown:
		go s.gracefulShutdown(o)
	case region.ShardStarted:
		s.reportStarted(o)
	case region.ShardStopped:
		s.reportStopped(o)
	case region.HostRefused:
		s.reportRefused(o)
	case region.Left:
		close(s.left)
	case region.Fail:
		s.fail(o.Reason)
	}
}

func (s *Server) performTurn(o turn.Output) {
	switch o := o.(type) {
	case turn.Run:
		s.run(o)
	case turn.Answer:
		s.answer(o.Request, link.Answer{Reply: o.Reply})
	case turn.Append:
		s.append(o)
	case turn.ReadFence:
		s.readFence(o)
	case turn.Load:
		go s.load(o)
	case turn.Stop:
		s.stop(o)
	case turn.Drop:
		s.drop(o)
	case turn.Cancel:
		s.cancel(o)
	case turn.Snapshot:
		s.snapshot(o)
	}
}

// answer ends a command towards its link. Accepted tells have been answered
// before; timers never asked.
func (s *Server) answer(r turn.RequestID, a link.Answer) {
	c := s.callers[r]
	if c == nil {
		return
	}
	delete(s.callers, r)
	a.Corr = c.corr
	if _, ok := s.answers[c.conn]; !ok {
		s.conns = append(s.conns, c.conn)
	}
	s.answers[c.conn] = append(s.answers[c.conn], a)
	if a.NotMine == nil {
		s.observe(c, &a.Reply)
	}
}

// flushAnswers sends what the batch has answered, one write per connection.
// Answers to a link that has ended go nowhere: its gateway knows.
func (s *Server) flushAnswers() {
	for _, c := range s.conns {
		_ = c.SendBatch(s.answers[c])
		delete(s.answers, c)
	}
	s.conns = s.conns[:0]
}

// onCommands takes in what a link has read.
func (s *Server) onCommands(conn *link.Conn, cmds []link.Command) {
	now := time.Now()
	items := make([]item, len(cmds))
	callers := make([]caller, len(cmds))
	for i := range cmds {
		c := &cmds[i]
		callers[i] = caller{
			conn: conn, corr: c.Corr, arrived: now,
			entity: c.Envelope.Entity, command: c.Envelope.Command, trace: c.Envelope.Trace,
		}
		items[i] = item{in: region.Command{Epoch: c.Epoch, Env: c.Envelope}, from: &callers[i]}
	}
	s.inbox.putWaiting(items)
}
