package server

import (
	"context"
	"errors"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/twitchtv/twirp"
)

// service takes the messages of regions and gateways.
type service struct{ s *Server }

// errStandby answers everything but watches at a standby.
func (s *Server) errStandby() error {
	err := twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by")
	if !s.known.Node.IsZero() {
		err = err.WithMeta("active", s.known.Node.Addr)
	}
	return err
}

var errStopping = twirp.NewError(twirp.Unavailable, "this coordinator stops")

// errCrowded refuses a call that would wait with too many others.
var errCrowded = twirp.NewError(twirp.ResourceExhausted, "too many calls wait for this coordinator already; nothing was done, try again")

// take hands a call from outside to the loop, or refuses it: too much waits
// already. Whoever called repeats what still matters.
func (s *Server) take(size int, f func()) error {
	if s.inbox.offer(size, f) {
		return nil
	}
	s.telemetry.refused.Add(s.ctx, 1)
	s.inboxFull.say(s.log, "too many calls wait for this coordinator, more are refused and repeated by their callers")
	return errCrowded
}

func late(ctx context.Context) error {
	return twirp.NewError(twirp.DeadlineExceeded, "no answer in time: "+ctx.Err().Error())
}

// Receive takes one-way messages in.
func (v service) Receive(_ context.Context, from sharding.NodeID, msgs []control.Message, size int) error {
	return v.s.take(size, func() { v.receive(from, msgs) })
}

func (v service) receive(from sharding.NodeID, msgs []control.Message) {
	s := v.s
	for _, m := range msgs {
		switch m := m.(type) {
		case control.GetShardHome:
			s.step(coordinator.GetShardHome(m))
		case control.ShardStarted:
			s.step(coordinator.ShardStarted{Region: from, Shard: m.Shard, Epoch: m.Epoch})
		case control.HostRefused:
			s.step(coordinator.HostRefused{Region: from, Shard: m.Shard, Epoch: m.Epoch, Above: m.Above})
		case control.ShardStopped:
			s.step(coordinator.ShardStopped{Region: from, Shard: m.Shard, Epoch: m.Epoch})
		case control.JournalReport:
			s.step(coordinator.JournalReport{Region: from, Number: m.Number, State: m.State})
		}
	}
}

// Answer waits for the answer to a call.
func (v service) Answer(ctx context.Context, from sharding.NodeID, m control.Message, size int) (control.Message, error) {
	s := v.s
	switch m := m.(type) {
	case control.Register:
		in := coordinator.Register{Region: from, Name: m.Name, Types: m.Types, Version: m.Version, Last: m.Last}
		if m.Journal.Known {
			in.Journal = &m.Journal.Cluster
		}
		if in.Version != "" {
			if err := sharding.CheckID("app_version", in.Version, sharding.MaxTypeLen); err != nil {
				return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
			}
		}
		a, err := call(ctx, s, s.registers, from, size, in)
		return control.RegisterAck{Term: a.Term, Refusal: a.Refusal}, err
	case control.GracefulShutdown:
		a, err := call(ctx, s, s.shutdowns, from, size, coordinator.GracefulShutdown{Region: from})
		return control.ShutdownAck{Term: a.Term, Remaining: a.Remaining}, err
	case control.WatchTable:
		return v.watch(ctx, m, size)
	}
	return nil, twirp.NewError(twirp.InvalidArgument, "no call")
}

// watch waits for a change of the table.
func (v service) watch(ctx context.Context, m control.WatchTable, size int) (control.Message, error) {
	s := v.s
	got := make(chan control.Message, 1)
	var id coordinator.WatchID
	if err := s.take(size, func() {
		if len(s.watches) >= 2*s.limits.MaxWatches {
			got <- nil
			return
		}
		s.lastWatch++
		id = s.lastWatch
		s.watches[id] = got
		s.step(coordinator.WatchTable{Watch: id, Version: m.Version})
	}); err != nil {
		return nil, err
	}
	select {
	case w := <-got:
		if w == nil {
			return nil, errCrowded
		}
		return w, nil
	case <-ctx.Done():
		s.inbox.put(func() {
			delete(s.watches, id)
			s.step(coordinator.WatchEnded{Watch: id})
		})
		return nil, late(ctx)
	case <-s.ctx.Done():
		return nil, errStopping
	}
}

// result is an acknowledgement, or why there is none.
type result[A any] struct {
	ack A
	err error
}

// maxCallsOfOne is how many calls of one region may wait for the same
// acknowledgement. It makes one at a time; the others have lost patience.
const maxCallsOfOne = 16

// callers wait for the acknowledgement of a region. Of the loop only.
type callers[A any] map[sharding.NodeID][]chan result[A]

func (c callers[A]) answer(to sharding.NodeID, r result[A]) {
	for _, ch := range c[to] {
		ch <- r // has room for one
	}
	delete(c, to)
}

// refuse answers everybody who waits.
func (c callers[A]) refuse(err error) {
	for to := range c { // order-free: each gets the same
		c.answer(to, result[A]{err: err})
	}
}

// crowded reports whether so many wait that one more must not.
func (c callers[A]) crowded(region sharding.NodeID, most int) bool {
	return len(c[region]) >= maxCallsOfOne || len(c) >= most && c[region] == nil
}

// forget strikes out one who waits no more.
func (c callers[A]) forget(to sharding.NodeID, ch chan result[A]) {
	if c[to] = slices.DeleteFunc(c[to], func(o chan result[A]) bool { return o == ch }); len(c[to]) == 0 {
		delete(c, to)
	}
}

// call steps an input of a region and waits for its acknowledgement.
func call[A any](ctx context.Context, s *Server, c callers[A], region sharding.NodeID, size int, in coordinator.Input) (a A, err error) {
	ch := make(chan result[A], 1)
	if err := s.take(size, func() {
		if s.core.Active() == 0 {
			ch <- result[A]{err: s.errStandby()}
			return
		}
		if c.crowded(region, s.limits.MaxWatches) {
			ch <- result[A]{err: errCrowded}
			return
		}
		c[region] = append(c[region], ch)
		s.step(in)
	}); err != nil {
		return a, err
	}
	select {
	case r := <-ch:
		return r.ack, r.err
	case <-ctx.Done():
		s.inbox.put(func() { c.forget(region, ch) })
		return a, late(ctx)
	case <-s.ctx.Done():
		return a, errStopping
	}
}

// look runs f inside the loop and waits for it.
func (s *Server) look(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	if err := s.take(0, func() { done <- f() }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errStopping
	}
}

// ready reports whether this coordinator acts, or knows who does.
func (s *Server) ready(ctx context.Context) error {
	return s.look(ctx, func() error {
		switch {
		case !s.agent.Members().InCluster:
			return errors.New("not a member of the cluster yet")
		case s.core.Active() == 0 && s.known.Node.IsZero():
			return errors.New("no active coordinator is known")
		}
		return nil
	})
}
