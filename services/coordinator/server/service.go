package server

import (
	"context"
	"errors"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/twitchtv/twirp"
)

// service takes the messages of regions and gateways.
type service struct{ s *Server }

var errStopping = twirp.NewError(twirp.Unavailable, "this coordinator stops")

// errCrowded refuses a call that would wait with too many others.
var errCrowded = twirp.NewError(twirp.ResourceExhausted, "too many calls wait for this coordinator already; nothing was done, try again")

// take hands a call from outside to the loop, or refuses it: too much waits
// already. The caller repeats what still matters.
func (s *Server) take(size int, f func()) error {
	if s.inbox.Offer(size, f) == nil {
		return nil
	}
	s.telemetry.refused.Add(s.ctx, 1)
	s.inboxFull.Warn(s.log, "too many calls wait for this coordinator, more are refused and repeated by their callers")
	return errCrowded
}

func late(ctx context.Context) error {
	return twirp.NewError(twirp.DeadlineExceeded, "no answer in time: "+ctx.Err().Error())
}

// Receive takes one-way messages in.
func (v service) Receive(_ context.Context, from sharding.NodeID, msgs []control.Message, size int) error {
	s := v.s
	return s.take(size, func() {
		for _, m := range msgs {
			s.hearLease() // a request may have thousands of messages
			s.step(coordinator.Received{From: from, Msg: m})
		}
	})
}

// Answer hands a call to the core and waits for the answer.
func (v service) Answer(ctx context.Context, from sharding.NodeID, m control.Message, size int) (control.Message, error) {
	s := v.s
	got := make(chan rpc.Answer, 1)
	var call control.Call
	if err := s.take(size, func() {
		if call = s.calls.Hold(from, got); call == 0 {
			got <- rpc.Answer{Err: errCrowded}
			return
		}
		s.step(coordinator.Received{From: from, Call: call, Msg: m})
	}); err != nil {
		return nil, err
	}
	select {
	case a := <-got:
		return a.Msg, a.Err
	case <-ctx.Done():
		s.inbox.Put(func() {
			s.calls.Forget(call)
			s.step(coordinator.CallEnded{Call: call})
		})
		return nil, late(ctx)
	case <-s.ctx.Done():
		return nil, errStopping
	}
}

// look runs f inside the loop and waits for it.
func (s *Server) look(ctx context.Context, f func() error) error {
	err := loop.Do(ctx, s.ctx.Done(), func(f func()) error { return s.take(0, f) }, f)
	if errors.Is(err, loop.ErrClosed) {
		return errStopping
	}
	return err
}

// ready reports whether this coordinator acts, or knows who does.
func (s *Server) ready(ctx context.Context) error {
	return s.look(ctx, func() error {
		switch {
		case !s.agent.Members().InCluster:
			return errors.New("not a member of the cluster yet")
		case s.core.ActiveTerm() == 0 && s.known.Node.IsZero():
			return errors.New("no active coordinator is known")
		}
		return nil
	})
}
