package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// slot holds one living instance and the jobs it has to do, one at a time.
type slot struct {
	inst *entity.Instance

	mu     sync.Mutex
	jobs   []func()
	busy   bool
	cancel context.CancelFunc // of the running turn
}

// submit adds a job. An idle instance has no goroutine; the first job starts
// one.
func (sl *slot) submit(job func()) {
	sl.mu.Lock()
	sl.jobs = append(sl.jobs, job)
	start := !sl.busy
	sl.busy = true
	sl.mu.Unlock()
	if start {
		go sl.work()
	}
}

func (sl *slot) work() {
	for {
		sl.mu.Lock()
		if len(sl.jobs) == 0 {
			sl.busy, sl.jobs = false, nil
			sl.mu.Unlock()
			return
		}
		job := sl.jobs[0]
		sl.jobs = sl.jobs[1:]
		sl.mu.Unlock()
		job()
	}
}

func (sl *slot) setCancel(c context.CancelFunc) {
	sl.mu.Lock()
	sl.cancel = c
	sl.mu.Unlock()
}

func (sl *slot) cancelTurn() {
	sl.mu.Lock()
	if sl.cancel != nil {
		sl.cancel()
	}
	sl.mu.Unlock()
}

// load makes an instance from what the journal holds. It runs on a goroutine
// of its own; the journal bounds how many read at a time.
func (s *Server) load(o turn.Load) {
	out := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}
	var found journal.Loaded
	if !o.Volatile {
		var err error
		found, err = s.journal.Load(s.ctx, journal.LoadRequest{Entity: o.Entity, Lookup: o.Lookup})
		if err != nil {
			out.Err, out.Code = err.Error(), sharding.DataLoss
			out.Retry = !errors.Is(err, journal.ErrCorrupt)
			s.inbox.put(item{in: region.Turn{Input: out}})
			return
		}
		out.LastSeq, out.Stored = found.LastSeq, found.Stored
	}
	if o.LookupOnly {
		s.inbox.put(item{in: region.Turn{Input: out}})
		return
	}
	inst, events, timers, err := s.revive(o, &found)
	if err != nil {
		out.Err, out.Code = "the entity cannot be brought to life: "+err.Error(), sharding.Internal
		s.log.Error("an entity cannot be brought to life", "entity.type", o.Entity.Type, "entity.id", o.Entity.ID, "error", err)
		s.inbox.put(item{in: region.Turn{Input: out}})
		return
	}
	out.Events, out.Timers = events, timers
	s.inbox.put(item{in: region.Turn{Input: out}, slot: &slot{inst: inst}, inc: o.Incarnation})
}

func (s *Server) revive(o turn.Load, found *journal.Loaded) (inst *entity.Instance, events int, timers []turn.Timer, err error) {
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

func (s *Server) run(o turn.Run) {
	sl := s.slots[o.Incarnation]
	sl.submit(func() {
		ctx, cancel := s.turnContext(&o.Env)
		sl.setCancel(cancel)
		began := time.Now()
		done := sl.inst.Run(ctx, &o.Env, o.ReadOnly)
		sl.setCancel(nil)
		cancel()
		done.Entity, done.Incarnation, done.Request = o.Entity, o.Incarnation, o.Request
		done.Handler = time.Since(began)
		s.inbox.put(item{in: region.Turn{Input: done}})
	})
}

// turnContext ends when the command's client stops waiting, and carries its
// trace.
func (s *Server) turnContext(env *sharding.Envelope) (context.Context, context.CancelFunc) {
	ctx := s.traceContext(env.Trace)
	if env.Deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, env.Deadline)
}

func (s *Server) cancel(o turn.Cancel) {
	if sl := s.slots[o.Incarnation]; sl != nil {
		sl.cancelTurn()
	}
}

func (s *Server) stop(o turn.Stop) {
	sl := s.slots[o.Incarnation]
	delete(s.slots, o.Incarnation)
	sl.submit(func() {
		if err := s.stopHook(sl.inst, o.Reason); err != nil {
			s.log.Warn("a stop hook failed", "entity.type", o.Entity.Type, "entity.id", o.Entity.ID, "error", err)
		}
		s.inbox.put(item{in: region.Turn{Input: turn.Stopped{Entity: o.Entity, Incarnation: o.Incarnation}}})
	})
}

// stopHook runs a stop hook, and leaves one that does not end to itself: the
// commands that came meanwhile wait for a new instance.
func (s *Server) stopHook(inst *entity.Instance, why turn.StopReason) error {
	if !inst.Stops() {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.StopTimeout)
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

func (s *Server) drop(o turn.Drop) {
	if sl := s.slots[o.Incarnation]; sl != nil {
		sl.cancelTurn()
		delete(s.slots, o.Incarnation)
	}
}

// snapshot is cut by the instance between two turns and stored like an append.
// A refused one is no loss: the next replay is longer.
func (s *Server) snapshot(o turn.Snapshot) {
	sl := s.slots[o.Incarnation]
	sl.submit(func() {
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
