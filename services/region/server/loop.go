package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server/executor"
)

// No goroutine owns a shard core. A goroutine that brings an input steps the core with it
// and with the inputs that others have brought in the meantime, and then runs the turns that
// this causes. So most commands are answered by the goroutine that read them, and no
// other goroutine is woken. A goroutine that finds the core locked does not wait: the one
// that holds the lock looks at the inbox again after it has released it.

// tickEvery is the interval of the core's ticks while something happens: finer than any of its intervals. See
// [region.NewRest].
const tickEvery = 20 * time.Millisecond

// maxRounds is the maximum number of times that an inline runner steps the core and runs
// turns before it leaves the rest to the pool. In a busy region there is always more to
// do, and the inline runner must also read its link.
const maxRounds = 16

// shardLoop is the driver of one shard core.
type shardLoop struct {
	*shared
	index     int
	control   *controlLoop
	wakeCores func(cores) // wakes a worker for each of the given cores
	pool      *pool

	// stepping is held by the goroutine that steps the core; no other goroutine waits for
	// it. It guards the fields below, except arrivalsLeft.
	stepping      sync.Mutex
	worker        *worker   // of the goroutine that steps the core
	now           time.Time // of the current step
	core          *region.ShardCore
	batch         batch
	arrivalsTaken int          // how many arrivals of the batch the core has taken
	arrivalsLeft  atomic.Bool  // the batch has arrivals that the core has not taken
	alarmAt       atomic.Int64 // when the core's next alarm is due, in Unix nanoseconds
	taking        *arrival     // the command that the core takes in now
	outputs       region.Outputs
	callers       callers
	forPool       []job // jobs that the worker does not take
	asks          asks
	// inline is the number of inline runners that will look at the inbox once more before they leave. While
	// there is one, no goroutine is woken for new inputs.
	inline         atomic.Int32
	snapshotting   map[*slot][]job // instances with a snapshot in progress, and the jobs that wait for it
	slots          []*slot         // by place
	lastPaces      *paces          // of lastPacesType
	storeTime      *storeTime      // the newest reading; nil: none
	lastPacesType  sharding.EntityType
	contexts       []turnContext                       // for the next turns
	gives          map[control.Call]chan<- region.Kept // what other regions have asked for
	lastGive       control.Call
	attributes     map[attributeKey]*measures
	lastAttributes attributeKey
	lastMeasures   *measures
}

func newShardLoop(r *Runner, index int) *shardLoop {
	s := &shardLoop{
		shared: r.shared, index: index, control: r.control, wakeCores: r.wakeCores,
		core: region.NewShardCore(r.cfg, index), asks: asks{waiting: map[uint64]waitingTurn{}}, snapshotting: map[*slot][]job{}, gives: map[control.Call]chan<- region.Kept{}, attributes: map[attributeKey]*measures{},
	}
	s.pool = executor.New(s.work, s.handIn, s.yieldInline, s.ctx.Done())
	return s
}

// stop waits for the last step. The turns that wait for answers go on.
func (s *shardLoop) stop() {
	s.pool.End()
	s.stepping.Lock()
	s.endAsks()
}

// put adds inputs for the core, and wakes a worker if no goroutine is stepping the core.
func (s *shardLoop) put(items ...item) {
	s.inbox.put(s.index, items...)
	s.wake()
}

// wake makes sure that a goroutine looks at the inbox.
func (s *shardLoop) wake() {
	if s.inline.Load() > 0 {
		return // it will look, after the quick turns that it is running at most
	}
	if s.stepping.TryLock() { // otherwise the goroutine that holds it will look
		s.stepping.Unlock()
		s.pool.Wake()
	}
}

// leaveInline is called when an inline runner will not look at the inbox any more. Inputs that have come since
// its last look would be left otherwise: the goroutine that brought them has woken no worker.
func (s *shardLoop) leaveInline() {
	s.inline.Add(-1)
	if s.waiting() {
		s.wake()
	}
}

// yieldInline is called when an inline runner is held up by its job, which may take long.
func (s *shardLoop) yieldInline(yield func()) {
	s.leaveInline()
	if yield != nil {
		yield()
	}
}

// afterTurns calls f when a new job has run, and all jobs that wait now have begun, such as turns.
func (s *shardLoop) afterTurns(f func()) {
	waited := s.pool.Standing()
	s.put(item{do: func() { s.queue(job{Work: work{do: func() { s.afterBegun(waited, f) }}}) }})
}

// afterBegun calls f when the jobs that waited have begun.
func (s *shardLoop) afterBegun(waited executor.Standing[work, finished, local], f func()) {
	switch {
	case !s.pool.StillStands(waited):
		f()
	case s.ctx.Err() == nil:
		time.AfterFunc(lookAgain, func() { s.afterBegun(waited, f) })
	}
}

// lookAgain is the time between two looks at jobs that do not begin: less than a delay that a person notices.
const lookAgain = 100 * time.Millisecond

// handIn gives the core the results of a worker that is held up by its current job.
func (s *shardLoop) handIn(done []finished) {
	s.inbox.putFinished(s.index, done)
	s.wake()
}

// runInline steps the core with the inputs that the caller and others have brought, and runs
// the resulting jobs. The caller is a handler of net/http, which would recover from a panic of the core.
func (s *shardLoop) runInline(yield func()) {
	defer loop.Fatal()
	s.inline.Add(1)
	w := s.pool.Acquire(yield)
	defer s.pool.Release(w)
	preempted := false
	for round := 0; round <= maxRounds && !preempted && s.step(w); round++ {
		preempted = s.runJobs(w)
	}
	if preempted {
		s.wake() // for the result of the job that has held it up
	} else {
		s.leaveInline()
	}
}

// work does the same for a goroutine of the pool. It leaves what is in the inbox to an inline runner, if there
// is one: two goroutines would only take turns at the core, and pass its memory between processors.
func (s *shardLoop) work(w *worker) {
	for s.step(w) {
		if s.runJobs(w); s.inline.Load() > 0 {
			return
		}
	}
}

// maxStep is about how many commands are taken in before their turns run: few enough to be
// still in the processor's cache then.
const maxStep = 128

// step steps the core until the inbox is empty or maxStep commands are taken, unless
// another goroutine is stepping it. It reports whether the worker has more to do: jobs to
// run, or inputs that are left.
func (s *shardLoop) step(w *worker) (more bool) {
	n := 0
	for n < maxStep && s.waiting() && s.stepping.TryLock() {
		s.worker = w
		commands, stirred := s.takeIn()
		n += commands
		s.worker = nil
		s.alarmAt.Store(s.core.AlarmAt().UnixNano())
		if stirred {
			s.rest.stir()
		}
		s.pool.Add(s.forPool)
		clear(s.forPool)
		s.forPool = s.forPool[:0]
		s.stepping.Unlock()
		s.send(w)
	}
	return n >= maxStep || w.Loaded()
}

// waiting reports whether there is something to take in.
func (s *shardLoop) waiting() bool { return s.arrivalsLeft.Load() || !s.inbox.idle(s.index) }

// runJobs runs the jobs of a worker and hands in their results. It reports whether the worker
// was preempted meanwhile. If the code of an entity ends the goroutine (runtime.Goexit), nothing can keep it alive: then
// the turn has failed, other goroutines do the rest, and runJobs does not return.
func (s *shardLoop) runJobs(w *worker) (preempted bool) {
	j, now := w.Next(nil), time.Now()
	began := now
	defer func() {
		if j == nil {
			return
		}
		if p := recover(); p != nil {
			panic(p) // a bug of Roost: it ends the process
		}
		s.jobExited(w, &j.Work, began)
	}()
	s.pool.Watch()
	for j != nil {
		began = now
		var result *finished // of a turn
		if j.Work.do != nil {
			j.Work.do()
			now = time.Now()
		} else {
			w.Local.finished = finished{}
			result = &w.Local.finished
			now = s.turn(w, &j.Work, result, now)
		}
		if j.Pace != nil {
			j.Pace.Observe(now.Sub(began))
		}
		j = w.Next(result)
	}
	results, preempted := w.Finish()
	w.Reuse(s.inbox.putFinished(s.index, results))
	return preempted
}

// takeIn steps the core with some of its inputs: first with those that end work, then with
// at most maxStep commands. It returns how many commands those were, and whether there was anything but
// ticks.
func (s *shardLoop) takeIn() (commands int, stirred bool) {
	defer s.notePanic()
	s.now = time.Now()
	b := &s.batch
	b.reset(s.arrivalsTaken == len(b.arrivals))
	if len(b.arrivals) == 0 {
		s.arrivalsTaken = 0
	}
	s.inbox.take(s.index, b)
	stirred = s.takeEnds(b)
	some := b.arrivals[s.arrivalsTaken:min(s.arrivalsTaken+maxStep, len(b.arrivals))]
	for i := range some {
		a := &some[i]
		env := &a.cmd.Envelope
		in := region.Command{Epoch: a.cmd.Epoch, Env: env, Request: s.callers.add(caller{
			to: a.to, number: a.cmd.Number, arrived: a.at, entity: env.Entity, command: env.Command, trace: env.Trace,
			tell: env.Tell && !env.Keyed, ticket: a.ticket,
		})}
		if a.refused != nil {
			s.answer(in.Request, link.Answer{Reply: *a.refused})
			continue
		}
		s.taking = a
		s.core.Command(s.clock(i), &in, &s.outputs)
		s.perform()
		s.taking = nil
	}
	s.arrivalsTaken += len(some)
	s.arrivalsLeft.Store(s.arrivalsTaken < len(b.arrivals))
	return len(some), stirred || len(some) > 0
}

// notePanic notes which command the core took in when it panicked. The panic continues and ends the process.
func (s *shardLoop) notePanic() {
	if s.taking != nil {
		s.noter.corePanicked(s.taking.cmd.Envelope.Entity, s.taking.cmd.Envelope.Command)
	}
}

// takeEnds takes in all inputs of a batch except commands. It reports whether there was anything but ticks.
func (s *shardLoop) takeEnds(b *batch) (stirred bool) {
	for i := range b.loaded {
		l := &b.loaded[i]
		if !l.made {
			s.vacate(l.in.Incarnation)
		}
		s.core.Loaded(s.clock(i), &l.in, &s.outputs)
		s.perform()
	}
	for i := range b.done {
		f := &b.done[i]
		f.slot.ctx = nil
		s.core.TurnDone(s.clock(i), &f.in, &s.outputs)
		s.perform()
	}
	for i := range b.items {
		it := &b.items[i]
		if _, tick := it.in.(region.Tick); !tick {
			stirred = true
		}
		if it.do != nil {
			it.do()
		} else {
			s.input(it.in)
		}
	}
	return stirred || len(b.loaded)+len(b.done) > 0
}

// clock returns the time, read anew at every 32nd item of a batch: reading it for each item
// would cost more than many steps do.
func (s *shardLoop) clock(item int) time.Time {
	if item%32 == 31 {
		s.now = time.Now()
	}
	return s.now
}

// storeTime is the latest time by the clock of the journal's store at a time of this process. It is not changed: turns hold it.
type storeTime struct{ store, at time.Time }

func (s *shardLoop) input(in region.ShardInput) {
	s.now = time.Now()
	s.core.Step(s.now, in, &s.outputs)
	switch in.(type) {
	case wakeup.Page, region.StoreClock:
		if store, at, known := s.core.StoreClock(); known {
			s.storeTime = &storeTime{store, at}
		}
	}
	s.perform()
}

// perform performs the outputs of a step. Their memory is used again.
func (s *shardLoop) perform() {
	for _, o := range s.outputs.Turn {
		switch o := o.(type) {
		case *turn.Run:
			s.run(o)
		case *turn.Answer:
			s.answer(o.Request, link.Answer{Reply: o.Reply})
		default:
			s.performOther(o)
		}
	}
	for _, o := range s.outputs.Shard {
		switch o := o.(type) {
		case region.NotMine:
			s.answer(o.Request, link.Answer{NotMine: &link.NotMine{Row: o.Row, Refused: o.Refused}})
		case region.Refuse:
			s.answer(o.Request, link.Answer{Reply: o.Reply})
		case region.Claim:
			s.claim(o)
		case region.FetchKept:
			s.fetchKept(o)
		case region.Kept:
			s.gave(o)
		case region.ReadWakes:
			s.readWakes(o.Read)
		case region.ReadPurges:
			s.readDeleted(o.Read)
		case region.Purge:
			s.purge(o.Purge)
		case region.ReadSends:
			s.readSends(o.Read)
		case region.Route:
			s.routeSend(o.Deliver)
		case region.StoreEnds:
			s.storeEnds(o.Ack)
		case region.SendDied:
			s.sendDied(o.Letter)
		}
	}
	if len(s.outputs.Events) > 0 {
		s.control.tell(s.index, s.outputs.Events)
	}
	s.outputs.Reset()
	s.core.Recycle()
}

// performOther performs an output that does not come with every command.
func (s *shardLoop) performOther(o turn.Output) {
	switch o := o.(type) {
	case turn.Append:
		s.append(o)
	case turn.ReadFence:
		s.readFence(o)
	case turn.Load:
		s.startLoad(o)
	case turn.Lookup:
		s.lookup(o)
	case turn.ReadSend:
		s.readSend(o)
	case turn.SendAsk:
		s.sendAsk(o)
	case turn.SendProbe:
		s.sendProbe(o)
	case turn.AskDone:
		s.asks.answer(o.Number, o.Reply)
	case turn.Stop:
		s.stopInstance(o)
	case turn.Drop:
		s.drop(o)
	case turn.Cancel:
		s.cancel(o)
	case turn.Abandoned:
		s.abandoned(o)
	case turn.Snapshot:
		s.snapshot(o)
	case *turn.UnwatchedDone:
		s.unwatchedDone(o)
	}
}
