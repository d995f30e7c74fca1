package server

import (
	"context"
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// startLoad brings an entity to life, as the first job of its slot.
func (s *Runner) startLoad(o turn.Load) {
	sl := &slot{}
	s.queue(job{slot: sl, do: func() { s.load(o, sl) }})
}

// load makes an instance from what the journal holds. It runs on a worker; the
// journal bounds how many read at a time.
func (s *Runner) load(o turn.Load, sl *slot) {
	out := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}
	var found journal.Loaded
	if !o.Volatile {
		var err error
		found, err = s.journal.Load(s.ctx, journal.LoadRequest{Entity: o.Entity, Lookup: o.Lookup})
		if err != nil {
			out.Err, out.Code = err.Error(), sharding.DataLoss
			out.Retry = !errors.Is(err, journal.ErrCorrupt)
			s.inbox.loaded(&out, nil)
			return
		}
		out.LastSeq, out.Stored = found.LastSeq, found.Stored
	}
	if o.LookupOnly {
		s.inbox.loaded(&out, nil)
		return
	}
	inst, events, timers, err := s.revive(o, &found)
	if err != nil {
		out.Err, out.Code = "the entity cannot be brought to life: "+err.Error(), sharding.Internal
		s.log.Error("an entity cannot be brought to life", "entity.type", o.Entity.Type, "entity.id", o.Entity.ID, "error", err)
		s.inbox.loaded(&out, nil)
		return
	}
	out.Events, out.Timers = events, timers
	sl.inst = inst
	s.inbox.loaded(&out, sl)
}

func (s *Runner) revive(o turn.Load, found *journal.Loaded) (inst *entity.Instance, events int, timers []turn.Timer, err error) {
	if inst, err = entity.NewInstance(s.types[o.Entity.Type], o.Entity.ID); err != nil {
		return nil, 0, nil, err
	}
	if found.Snapshot.Seq > 0 {
		if err = inst.Restore(found.Snapshot.Payload); err != nil {
			return nil, 0, nil, err
		}
	}
	for i := range found.Records {
		events += len(found.Records[i].Events)
		if err = inst.Replay(found.Records[i].Events); err != nil {
			return nil, 0, nil, err
		}
	}
	timers, err = inst.Start(s.ctx)
	return inst, events, timers, err
}

// run queues a turn; the loop hands all that a batch brings over together.
func (s *Runner) run(o *turn.Run) {
	s.queue(job{slot: s.slots[o.Incarnation], run: *o})
}

func (s *Runner) queue(j job) {
	s.jobs = append(s.jobs, j)
	if len(s.jobs) == maxJobs {
		s.flushJobs()
	}
}

// maxJobs is how many turns are handed over at a time: few enough that workers
// begin before the loop is through with a large batch.
const maxJobs = 32

func (s *Runner) flushJobs() {
	if len(s.jobs) > 0 {
		s.crew.add(s.jobs...)
		clear(s.jobs)
		s.jobs = s.jobs[:0]
	}
}

// do queues another job than a turn behind those of its slot.
func (s *Runner) do(sl *slot, f func()) { s.queue(job{slot: sl, do: f}) }

// turn executes one turn, on a worker.
func (s *Runner) turn(j *job, ctx *turnContext, began time.Time) time.Time {
	done := j.slot.inst.Run(ctx, j.run.Env, j.run.ReadOnly)
	ctx.end()
	done.Entity, done.Incarnation, done.Request = j.run.Entity, j.run.Incarnation, j.run.Request
	over := time.Now()
	done.Handler = over.Sub(began)
	s.inbox.turnDone(&done)
	return over
}

// turnContext ends when the command's client stops waiting, and carries its
// trace.
func (s *Runner) turnContext(o *turn.Run) *turnContext {
	return &turnContext{Context: s.traceContext(o.Env.Trace), deadline: o.Env.Deadline}
}

func (s *Runner) cancel(o turn.Cancel) {
	if sl := s.slots[o.Incarnation]; sl != nil {
		s.flushJobs()
		s.crew.cancel(sl)
	}
}

func (s *Runner) stop(o turn.Stop) {
	sl := s.slots[o.Incarnation]
	delete(s.slots, o.Incarnation)
	s.do(sl, func() {
		if err := s.stopHook(sl.inst, o.Reason); err != nil {
			s.log.Warn("a stop hook failed", "entity.type", o.Entity.Type, "entity.id", o.Entity.ID, "error", err)
		}
		s.inbox.put(item{in: region.Turn{Input: turn.Stopped{Entity: o.Entity, Incarnation: o.Incarnation}}})
	})
}

// stopHook runs a stop hook, and leaves one that does not end to itself: the
// commands that came meanwhile wait for a new instance.
func (s *Runner) stopHook(inst *entity.Instance, why turn.StopReason) error {
	if !inst.Stops() {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.stopTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- inst.Stop(ctx, why) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Runner) drop(o turn.Drop) {
	if sl := s.slots[o.Incarnation]; sl != nil {
		s.flushJobs()
		s.crew.cancel(sl)
		delete(s.slots, o.Incarnation)
	}
}

// snapshot is cut by the instance between two turns and stored like an append.
// A refused one is no loss: the next replay is longer.
func (s *Runner) snapshot(o turn.Snapshot) {
	sl := s.slots[o.Incarnation]
	s.do(sl, func() {
		b, err := sl.inst.Snapshot()
		if err != nil {
			s.log.Warn("no snapshot", "entity.type", o.Entity.Type, "entity.id", o.Entity.ID, "error", err)
			return
		}
		s.journal.Submit(journal.Op{Snapshot: &journal.WriteSnapshot{
			Shard: o.Shard, Epoch: o.Epoch, Entity: o.Entity,
			Snapshot: journal.Snapshot{Seq: o.Seq, Payload: b},
		}}, func(journal.Result) {})
	})
}
