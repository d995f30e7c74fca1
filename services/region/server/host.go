package server

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server/executor"
	"github.com/roost-cluster/roost/services/region/server/stored"
)

// slot holds one living instance. All of it belongs to the core's side, except that jobs make the instance and
// use it.
type slot struct {
	inc  turn.Incarnation
	inst entity.Instance
	ctx  *turnContext // of the turn that is due or in progress
}

// work is a turn, or anything else to be done with an instance.
type work struct {
	slot *slot
	run  *turn.Run
	ctx  *turnContext // of the turn
	in   entity.Decoded
	do   func() // instead of run
}

// local holds the data that a worker keeps besides its jobs.
type local struct {
	out      []outgoing // answers to be sent when the core is released
	finished finished   // the turn in progress
}

type (
	job    = executor.Job[work]
	worker = executor.Worker[work, finished, local]
	pool   = executor.Pool[work, finished, local]
)

// paces holds the durations of jobs of a type.
type paces struct{ turn, load executor.Pace }

// queue gives a job to the worker that steps the core, or to the pool if it takes
// long or there is too much of it.
func (s *shardLoop) queue(j job) {
	if j.Expected() >= executor.Quick || !s.worker.Take(&j) {
		s.forPool = append(s.forPool, j)
	}
}

// startLoad brings an entity to life.
func (s *shardLoop) startLoad(o turn.Load) {
	sl, j := s.newSlot(o.Incarnation), job{}
	j.Work.do = func() { s.load(o, sl) }
	if o.Volatile { // else it reads a disk
		j.Pace = &s.pacesOf(o.Entity.Type).load
	}
	s.queue(j)
}

// newSlot makes the slot of an incarnation.
func (s *shardLoop) newSlot(inc turn.Incarnation) *slot {
	n := int(inc.Slot())
	if n >= len(s.slots) {
		s.slots = append(s.slots, make([]*slot, n+1-len(s.slots))...)
	}
	s.slots[n] = &slot{inc: inc}
	return s.slots[n]
}

// pacesOf returns the paces of a type. Many turns of one type follow each other.
func (s *shardLoop) pacesOf(t sharding.EntityType) *paces {
	if s.lastPaces == nil || s.lastPacesType != t {
		s.lastPaces, s.lastPacesType = s.paces[t], t
	}
	return s.lastPaces
}

// load makes an instance from what the journal holds. It runs on a worker; the
// journal bounds how many read at a time.
func (s *shardLoop) load(o turn.Load, sl *slot) {
	out := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}
	var found journal.Loaded
	ctx, cancel := context.WithTimeout(s.ctx, s.loadTimeout) // then the core asks again
	defer cancel()
	if !o.Volatile {
		var err error
		var ignored bool
		if o.Bare {
			found, err = s.journal.Load(ctx, o.LoadRequest)
		} else {
			found, ignored, err = stored.Load(ctx, s.journal, s.types[o.Entity.Type], o.LoadRequest)
		}
		if ignored {
			s.telemetry.rebuilt.Add(s.ctx, 1, metric.WithAttributes(attribute.String("roost.entity.type", string(o.Entity.Type))))
		}
		if err != nil {
			if out.NotFound(err); !out.Retry {
				out.Cause = cut(err.Error(), maxCause)
				s.loadFailed(o.Entity, err).tell(&out.Err)
			}
			s.inbox.putLoaded(s.index, &out, false)
			return
		}
		out.Found(&found)
	}
	if o.LookupOnly || o.Bare {
		s.inbox.putLoaded(s.index, &out, false)
		return
	}
	n := s.noter.begin(o.Entity, "", o.Suspect)
	inst, err := (*entity.Instance)(nil), entity.ErrGoexit
	defer func() { // the author's code may end this goroutine
		s.noter.end(&n, time.Now())
		if err == nil {
			sl.inst = *inst
			s.notAlive.repaired(o.Entity)
		} else {
			s.notAlive.note(time.Now(), o.Entity.String(), o.Entity.String()+": "+bounded(err))
			out.Err, out.Code = notAlive, sharding.Internal
			if errors.Is(err, entity.ErrStored) {
				out.Err, out.Code = out.Err+": "+entity.ErrStored.Error(), sharding.DataLoss
			}
			s.loadFailed(o.Entity, err).tell(&out.Err)
			out.Cause = cut(err.Error(), maxCause)
		}
		s.inbox.putLoaded(s.index, &out, err == nil)
	}()
	inst, out.Timers, out.Size, err = s.revive(ctx, o, &found)
}

const notAlive = "the entity cannot be brought to life"

// revive makes the instance, and runs its start hook.
func (s *shardLoop) revive(ctx context.Context, o turn.Load, found *journal.Loaded) (inst *entity.Instance, timers []turn.Timer, size int, err error) {
	if o.Volatile {
		inst, err = s.resume(o)
	} else {
		inst, err = stored.Rebuild(s.types[o.Entity.Type], o.Entity.ID, found)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	timers, err = inst.Start(ctx, time.Now())
	return inst, timers, sizeOf(inst), err
}

// lookup asks the journal for one command of a living entity.
func (s *shardLoop) lookup(o turn.Lookup) {
	s.queue(job{Work: work{do: func() {
		out := turn.LookedUp{Incarnation: o.Incarnation, ID: o.ID}
		ctx, cancel := context.WithTimeout(s.ctx, s.lookupTimeout)
		defer cancel()
		found, err := s.journal.Load(ctx, journal.LoadRequest{Entity: o.Entity, Lookup: []sharding.CommandID{o.ID}, LookupOnly: true})
		out.Failed = err != nil
		out.Stored, out.Found = found.Stored[o.ID]
		s.inbox.put(s.index, item{in: out})
	}}})
}

// run has a turn done.
func (s *shardLoop) run(o *turn.Run) {
	var sl *slot
	if o.New {
		sl = s.newSlot(o.Incarnation)
	} else {
		sl = s.slot(o.Incarnation)
	}
	sl.ctx = s.turnContext(o)
	if o.Wakeup != nil && o.Wakeup.Kind == sharding.ReminderWake {
		s.telemetry.reminder[o.Entity.Type].Record(o.Wakeup.Late.Seconds())
	}
	s.queueAfterSnapshot(sl, job{Work: work{slot: sl, run: o, ctx: sl.ctx, in: s.decoded(o.Env)}, Pace: &s.pacesOf(o.Entity.Type).turn})
}

// decoded returns the decoded input of a command whose turn begins as soon as the core takes it in. It is in use
// once: when the core has a command run again, it does not take it in again.
func (s *shardLoop) decoded(env *sharding.Envelope) entity.Decoded {
	if s.taking == nil || !samePayload(env.Payload, s.taking.cmd.Envelope.Payload) {
		return entity.Decoded{} // the turn belongs to another command
	}
	return s.taking.input
}

// samePayload reports whether two payloads are the same memory.
func samePayload(a, b []byte) bool {
	return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0]
}

// slot returns the slot of an incarnation, nil if it has none any more.
func (s *shardLoop) slot(inc turn.Incarnation) *slot {
	if sl := s.slots[inc.Slot()]; sl != nil && sl.inc == inc {
		return sl
	}
	return nil
}

// vacate gives up the slot of an incarnation, if it has one.
func (s *shardLoop) vacate(inc turn.Incarnation) {
	if s.slot(inc) != nil {
		s.slots[inc.Slot()] = nil
	}
}

// queueAfterSnapshot queues a job of an instance. If a snapshot of the instance is being
// taken, the job waits until it is.
func (s *shardLoop) queueAfterSnapshot(sl *slot, j job) {
	if more, ok := s.snapshotting[sl]; ok {
		s.snapshotting[sl] = append(more, j)
		return
	}
	s.queue(j)
}

// turn executes one turn, and tells when it was over.
func (s *shardLoop) turn(w *worker, j *work, over *finished, began time.Time) time.Time {
	j.ctx.worker = w
	if j.run.Suspect {
		s.pool.Block(w) // it may wait for another suspect
	}
	j.ctx.noted = s.noter.begin(j.run.Entity, j.run.Env.Command, j.run.Suspect)
	var failed, unmade error
	if j.run.New {
		unmade = j.slot.inst.Init(s.types[j.run.Entity.Type], j.run.Entity.ID)
	}
	if unmade == nil {
		failed = j.ctx.execute(j, over, began)
	}
	return s.turnOver(j, over, began, failed, unmade)
}

// jobExited takes in that a job has ended the goroutine of its worker, which is about to end. A job that is not a turn
// says itself what became of it.
func (s *shardLoop) jobExited(w *worker, j *work, began time.Time) {
	if j.run == nil {
		s.pool.Exit(w, nil)
		s.wake()
		return
	}
	over := &w.Local.finished
	var failed error
	over.in, failed = j.slot.inst.Exited(&j.ctx.handed, j.run)
	j.ctx.end()
	s.turnOver(j, over, began, failed, nil)
	s.pool.Exit(w, over)
}

// turnOver completes the result of a turn, and returns when it was over.
func (s *shardLoop) turnOver(j *work, over *finished, began time.Time, failed, unmade error) time.Time {
	now := time.Now()
	s.noter.end(&j.ctx.noted, now)
	switch {
	case unmade != nil:
		j.ctx.end()
		over.in = turn.TurnDone{Spoiled: true, Reply: sharding.Reject(sharding.Internal, notAlive)}
		s.tellFailed(j.run, s.loadFailed(j.run.Entity, unmade), &over.in.Reply.Message, unmade)
	case failed != nil:
		s.tellFailed(j.run, s.turnFailed(j.run, &over.in.Reply, failed), &over.in.Reply.Message, failed)
	}
	over.in.Incarnation, over.in.Request = j.run.Incarnation, j.run.Request
	over.in.Handler, over.slot = now.Sub(began), j.slot
	return now
}

// tellFailed adds to a message why a turn has failed: the error itself if no client reads the message.
func (s *shardLoop) tellFailed(run *turn.Run, ref reference, message *string, why error) {
	if run.Wakeup != nil || run.Env.ID.IsSend() {
		ref.tellOperators(message, why)
		return
	}
	ref.tell(message)
}

// execute runs the handler. It is a function of its own so that a stack shows whose turn it is, see stackOf.
//
//go:noinline
func (c *turnContext) execute(j *work, over *finished, began time.Time) (failed error) {
	over.in, failed = j.slot.inst.RunIn(c, &c.handed, began, j.run, j.in, c)
	c.end()
	return failed
}

// turnContext ends when the command's client stops waiting, and carries its
// trace.
func (s *shardLoop) turnContext(o *turn.Run) *turnContext {
	if len(s.contexts) == 0 {
		s.contexts = make([]turnContext, contextBlock)
	}
	c := &s.contexts[0]
	s.contexts = s.contexts[1:]
	c.Context, c.deadline, c.trace = s.traceContext(o.Env.Trace), o.Env.Deadline, o.Env.Trace
	c.loop, c.inc, c.turn, c.storeTime = s, o.Incarnation, o.Turn, s.storeTime
	return c
}

// StoreNow implements [entity.StoreClock].
func (c *turnContext) StoreNow() time.Time {
	now := time.Now()
	if c.storeTime == nil {
		return now
	}
	return c.storeTime.store.Add(now.Sub(c.storeTime.at))
}

// contextBlock is the number of contexts that are allocated at a time. None is used twice: a goroutine that a
// handler has left running may still hold the context of its turn.
const contextBlock = 8

func (s *shardLoop) cancel(o turn.Cancel) {
	if sl := s.slot(o.Incarnation); sl != nil && sl.ctx != nil {
		sl.ctx.end()
	}
}

func (s *shardLoop) stopInstance(o turn.Stop) {
	sl := s.slot(o.Incarnation)
	s.vacate(o.Incarnation)
	s.queueAfterSnapshot(sl, job{Work: work{slot: sl, do: func() {
		n := s.noter.begin(o.Entity, "", false)
		var kept *turn.Kept
		defer func() { // the author's code may end this goroutine
			s.noter.end(&n, time.Now())
			s.inbox.put(s.index, item{in: turn.Stopped{Incarnation: o.Incarnation, Kept: kept}})
		}()
		kept = s.stopAndKeep(&o, &sl.inst)
	}}})
}

// stopHook runs a stop hook, and leaves one that does not end to itself: the
// commands that came meanwhile wait for a new instance.
func (s *shardLoop) stopHook(inst *entity.Instance, why turn.StopReason) error {
	if !inst.Stops() {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.stopTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := entity.ErrGoexit
		defer func() { done <- err }()
		err = inst.Stop(ctx, time.Now(), why)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *shardLoop) drop(o turn.Drop) {
	if sl := s.slot(o.Incarnation); sl != nil {
		if sl.ctx != nil {
			sl.ctx.end()
		}
		s.vacate(o.Incarnation)
	}
}

// snapshot has the instance take a snapshot between two turns. It is stored like an append.
func (s *shardLoop) snapshot(o turn.Snapshot) {
	sl := s.slot(o.Incarnation)
	s.snapshotting[sl] = nil
	s.queue(job{Work: work{slot: sl, do: func() {
		defer s.inbox.put(s.index, item{do: func() { s.snapshotTaken(sl) }}) // the author's code may end this goroutine
		s.takeSnapshot(&o, &sl.inst)
	}}})
}

// snapshotTaken queues the jobs that waited until a snapshot was taken.
func (s *shardLoop) snapshotTaken(sl *slot) {
	more := s.snapshotting[sl]
	delete(s.snapshotting, sl)
	for _, j := range more {
		s.queue(j)
	}
}

// A journal catches up with what is to be trimmed.
const _ = uint(journal.MaxTrim - 2*turn.MaxTrimmedEvery)

// takeSnapshot captures the state of an instance and submits it to the journal.
func (s *shardLoop) takeSnapshot(o *turn.Snapshot, inst *entity.Instance) {
	form, b, err := sharding.SnapshotForm{}, []byte(nil), entity.ErrGoexit
	defer func() {
		if err != nil && !errors.Is(err, entity.ErrPartlyRead) { // that one waits for a version that reads all of the state
			s.noSnapshot(o.Entity, err)
		}
	}()
	form, b, err = inst.Snapshot()
	if err != nil {
		return
	}
	s.journal.Submit(journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: o.Shard, Epoch: o.Epoch, Entity: o.Entity,
		Snapshot: journal.Snapshot{Seq: o.Seq, Form: form, Payload: b}, Cut: o.Cut,
	}}, func(r journal.Result) { s.snapshotStored(o.Entity, r) })
}

// snapshotStored handles the result of storing a snapshot. Nothing is lost if it is not
// stored: the next one is taken after as many events again. Until then the entity takes
// longer to load, which an operator should know.
func (s *shardLoop) snapshotStored(of sharding.Entity, r journal.Result) {
	switch r.Verdict {
	case sharding.Durable:
	case sharding.RefusedEpoch, sharding.RefusedSeq: // the shard has moved, or a newer one is stored
		s.log.Debug("a snapshot was refused", "entity.type", of.Type, "entity.id", of.ID, "verdict", r.Verdict)
	default:
		s.noSnapshot(of, r.Err)
	}
}

func (s *shardLoop) noSnapshot(of sharding.Entity, err error) {
	s.telemetry.noSnapshot.Add(s.ctx, 1, metric.WithAttributes(attribute.String("roost.entity.type", string(of.Type))))
	ok, skipped := s.failures.admit(time.Now())
	if !ok {
		return
	}
	s.log.Warn("storing a snapshot failed", "hint", "loading the entity replays more events until the next snapshot",
		"entity.type", of.Type, "entity.id", of.ID, "error", err, "not_logged", skipped)
}
