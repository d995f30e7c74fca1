package server

import (
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// No goroutine owns the core. Whichever brings an input steps the core, together with
// the inputs that others have brought in the meantime, and then runs the turns that
// this causes. So most commands are answered by the goroutine that read them, and no
// other one is woken. A goroutine that finds the core locked does not wait: the one
// that holds the lock looks at the inbox again after it has released it.

// tickEvery is how often the core is told that time passes: finer than any of
// its intervals.
const tickEvery = 20 * time.Millisecond

// maxRounds is how often an inline runner steps the core and does turns before it
// leaves the rest to the pool: there is always more to do in a busy region, and it
// has something else to do.
const maxRounds = 16

// Run tells the core of the time until [Runner.End]; then nobody steps it any more.
func (s *Runner) Run() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			s.inbox.end()
			s.pool.End()
			s.stepping.Lock() // waits for the last step
			return
		case <-ticker.C:
			s.inbox.drained() // what has room now is taken in with the tick
			s.put(item{in: region.Tick{}})
		}
	}
}

// put gives the core something to take in, and has a worker come if need be.
func (s *Runner) put(items ...item) {
	s.inbox.put(items...)
	s.call()
}

// call makes sure that somebody looks at the inbox.
func (s *Runner) call() {
	if s.stepping.TryLock() { // else the one that holds it will look
		s.stepping.Unlock()
		s.pool.Wake()
	}
}

// handIn gives the core what a worker did that is held up.
func (s *Runner) handIn(done []finished) {
	s.inbox.finished(done)
	s.call()
}

// runInline does what the caller has brought, together with what others have brought.
func (s *Runner) runInline(yield func()) {
	w := s.pool.Acquire(yield)
	for round := 0; s.step(w); round++ {
		if preempted := s.do(w); preempted || round == maxRounds {
			s.call()
			break
		}
	}
	s.pool.Release(w)
}

// work is the same for a goroutine of the pool, which has nothing else to do.
func (s *Runner) work(w *worker) {
	for s.step(w) {
		s.do(w)
	}
}

// maxStep is about how many commands are taken in before their turns: so many are
// still in the processor's cache then.
const maxStep = 128

// step steps the core until there is nothing to take in, or enough has been, unless
// somebody else does. It reports whether the worker has more to do: jobs, or the rest.
func (s *Runner) step(w *worker) (more bool) {
	n := 0
	for n < maxStep && s.waiting() && s.stepping.TryLock() {
		s.worker = w
		n += s.takeIn()
		s.worker = nil
		s.pool.Add(s.rest)
		clear(s.rest)
		s.rest = s.rest[:0]
		s.stepping.Unlock()
		s.send(w)
	}
	return n >= maxStep || w.Loaded()
}

// waiting reports whether there is something to take in.
func (s *Runner) waiting() bool { return s.left.Load() || !s.inbox.idle() }

// do does the jobs of a worker and hands in what came of them. It reports whether
// the worker was preempted meanwhile.
func (s *Runner) do(w *worker) (preempted bool) {
	j, now := w.Next(nil), time.Now()
	s.pool.Watch()
	for j != nil {
		began := now
		var result *finished // of a turn
		if j.Work.do != nil {
			j.Work.do()
			now = time.Now()
		} else {
			w.Local.finished = finished{}
			result = &w.Local.finished
			now = s.turn(&j.Work, result, now)
		}
		if j.Pace != nil {
			j.Pace.Observe(now.Sub(began))
		}
		j = w.Next(result)
	}
	results, preempted := w.Finish()
	s.inbox.finished(results)
	w.Reuse(results)
	return preempted
}

// takeIn steps the core with some of what has come: first with what ends work, then
// with what begins it. It returns how many commands that were.
func (s *Runner) takeIn() (commands int) {
	s.now = time.Now()
	b := &s.batch
	b.reset(s.taken == len(b.arrivals))
	if len(b.arrivals) == 0 {
		s.taken = 0
	}
	s.inbox.take(b)
	s.takeEnds(b)
	some := b.arrivals[s.taken:min(s.taken+maxStep, len(b.arrivals))]
	for i := range some {
		a := &some[i]
		in := region.Command{Epoch: a.epoch, Env: &a.env, Request: s.callers.add(caller{
			to: a.to, corr: a.corr, arrived: a.at, entity: a.env.Entity, command: a.env.Command, trace: a.env.Trace,
			tell: a.env.Tell && !a.env.Keyed, ticket: a.ticket,
		})}
		if a.refused != nil {
			s.answer(in.Request, link.Answer{Reply: *a.refused})
			continue
		}
		s.perform(s.core.Command(s.clock(i), &in, s.outs[:0]))
	}
	s.taken += len(some)
	s.left.Store(s.taken < len(b.arrivals))
	return len(some)
}

// takeEnds takes in all of a batch but commands.
func (s *Runner) takeEnds(b *batch) {
	for i := range b.loaded {
		l := &b.loaded[i]
		if !l.made {
			s.vacate(l.in.Incarnation)
		}
		s.perform(s.core.Loaded(s.clock(i), &l.in, s.outs[:0]))
	}
	for i := range b.done {
		f := &b.done[i]
		f.slot.ctx = nil
		s.perform(s.core.TurnDone(s.clock(i), &f.in, s.outs[:0]))
	}
	for i := range b.items {
		if it := &b.items[i]; it.do != nil {
			it.do()
		} else {
			s.input(it.in)
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

func (s *Runner) input(in region.Input) {
	s.now = time.Now()
	s.perform(s.core.Step(s.now, in, s.outs[:0]))
}

// perform performs the outputs of a step. Their slice is used again.
func (s *Runner) perform(outs []region.Output) {
	for i, o := range outs {
		switch o := o.(type) {
		case *turn.Run:
			s.run(o)
		case *turn.Answer:
			s.answer(o.Request, link.Answer{Reply: o.Reply})
		case region.NotMine:
			s.answer(o.Request, link.Answer{NotMine: &link.NotMine{Row: o.Row, Refused: o.Refused}})
		case region.Refuse:
			s.answer(o.Request, link.Answer{Reply: o.Reply})
		default:
			s.performOther(o)
		}
		outs[i] = nil
	}
	s.outs = outs
	s.core.Recycle()
}

// performOther performs an output that does not come with every command.
func (s *Runner) performOther(o region.Output) {
	switch o := o.(type) {
	case region.Claim:
		s.claim(o)
	case turn.Append:
		s.append(o)
	case turn.ReadFence:
		s.readFence(o)
	case turn.Load:
		s.startLoad(o)
	case turn.Lookup:
		s.lookup(o)
	case turn.Stop:
		s.stop(o)
	case turn.Drop:
		s.drop(o)
	case turn.Cancel:
		s.cancel(o)
	case turn.Snapshot:
		s.snapshot(o)
	case turn.TellDone:
		s.told(&o)
	case region.ProbeJournal:
		s.probeJournal(o)
	case region.JournalChanged:
		s.journalChanged(o)
	default:
		s.outside(o)
	}
}
