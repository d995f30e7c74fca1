package server

import (
	"runtime"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// tickEvery is how often the core is told that time passes: finer than any of
// its intervals.
const tickEvery = 20 * time.Millisecond

// Run owns the core until [Runner.End]: it drains the inbox as a batch, steps
// each item, and performs the outputs. Nothing waits inside it.
func (s *Runner) Run() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	defer s.crew.end()
	defer s.inbox.end()
	var spare batch
	var others yielding
	for {
		tick := false
		if s.inbox.idle() {
			others.run()
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.inbox.wake:
		case <-ticker.C:
			tick = true
		}
		b := s.inbox.take(spare)
		s.takeIn(&b)
		if tick {
			s.step(region.Tick{})
		}
		s.flushJobs()
		s.flushAnswers()
		b.reset()
		spare = b
	}
}

// yielding lets others run before the loop waits: whoever is about to send
// something may join the batch. Where handlers keep all processors busy that takes
// long, and the loop would queue up behind them: then it is left off for a while.
type yielding struct{ skip int }

const (
	// maxYield is far more than a batch of quick turns takes.
	maxYield = 2 * time.Millisecond
	// skipYields is how many batches go by without: one in so many may wait long.
	skipYields = 50
)

func (y *yielding) run() {
	if y.skip > 0 {
		y.skip--
		return
	}
	began := time.Now()
	runtime.Gosched()
	if time.Since(began) > maxYield {
		y.skip = skipYields
	}
}

// takeIn steps the core with a batch: first what ends work, then what begins it.
func (s *Runner) takeIn(b *batch) {
	s.now = time.Now()
	for i := range b.loaded {
		l := &b.loaded[i]
		if l.slot != nil {
			s.slots[l.in.Incarnation] = l.slot
		}
		s.perform(s.core.Loaded(s.clock(i), &l.in, s.outs[:0]))
	}
	for i := range b.done {
		s.perform(s.core.TurnDone(s.clock(i), &b.done[i], s.outs[:0]))
	}
	for i := range b.arrivals {
		a := &b.arrivals[i]
		env := &a.command.Env
		a.command.Request = s.callers.add(caller{
			replies: s.repliesTo(a.to), corr: a.corr, arrived: a.at, entity: env.Entity, command: env.Command, trace: env.Trace,
		})
		s.perform(s.core.Command(s.clock(i), &a.command, s.outs[:0]))
	}
	for i := range b.items {
		if it := &b.items[i]; it.do != nil {
			it.do()
		} else {
			s.step(it.in)
		}
	}
}

// clock is the time as of the last 32 items of a batch: looking at it for each
// would cost more than many a step.
func (s *Runner) clock(item int) time.Time {
	if item%32 == 31 {
		s.now = time.Now()
	}
	return s.now
}

func (s *Runner) step(in region.Input) {
	s.now = time.Now()
	s.perform(s.core.Step(s.now, in, s.outs[:0]))
}

// perform performs the outputs of a step. Their slice is used again.
func (s *Runner) perform(outs []region.Output) {
	for i, o := range outs {
		switch o := o.(type) {
		case region.Entity:
			s.performTurn(o.Output)
		case region.NotMine:
			s.answer(o.Request, link.Answer{NotMine: &link.NotMine{Row: o.Row, Refused: o.Refused}})
		case region.Refuse:
			s.answer(o.Request, link.Answer{Reply: o.Reply})
		case region.Claim:
			s.claim(o)
		default:
			s.outside(o)
		}
		outs[i] = nil
	}
	s.outs = outs
}

func (s *Runner) performTurn(o turn.Output) {
	switch o := o.(type) {
	case turn.Run:
		s.run(&o)
	case turn.Answer:
		s.answer(o.Request, link.Answer{Reply: o.Reply})
	case turn.Append:
		s.append(o)
	case turn.ReadFence:
		s.readFence(o)
	case turn.Load:
		s.startLoad(o)
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
