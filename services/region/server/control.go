package server

import (
	"context"
	"errors"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
)

// callTimeout bounds one call to a coordinator: the core repeats what stays
// unanswered, and looks for another coordinator after the same time.
const callTimeout = 2 * time.Second

// maxCalls is the maximum number of calls of other processes that wait; the core answers at once.
const maxCalls = 1024

// send sends a control message, without waiting for the answer.
func (s *Server) send(o region.Send) {
	if !control.IsCall(o.Msg) {
		s.outbox.Send(sharding.NodeID{Addr: o.To, UID: o.UID}, o.Msg)
		return
	}
	go func() {
		answer, err := s.client.Call(s.runner.ctx, o.To, o.Msg)
		if err != nil {
			answer = nil
		}
		s.runner.control.put(controlItem{do: func() { s.complain(o, err) }}, controlItem{in: region.Replied{From: o.To, Asked: o.Msg, Msg: answer}})
	}()
}

// complaint records the failure of the last call of a kind.
type complaint struct {
	err    error  // nil: nothing
	logged string // the newest line in the log
	at     time.Time
}

// complainEvery is the least time between two lines in the log about failed calls of a
// kind: they are repeated again and again.
const complainEvery = 10 * time.Second

// complain logs that a call has failed, once for each reason.
func (s *Server) complain(o region.Send, err error) {
	name := control.Name(o.Msg)
	c := s.complaints[name]
	if c.err = err; err == nil {
		c.logged = ""
	} else if now := time.Now(); c.logged != err.Error() && now.Sub(c.at) >= complainEvery && s.runner.ctx.Err() == nil {
		c.logged, c.at = err.Error(), now
		s.log.Warn("call to the coordinator failed, retrying", "call", name, "coordinator", o.To, "error", err)
	}
	s.complaints[name] = c
}

// heartbeatTimeout bounds the question whose the journal is: a region whose journal does
// not answer registers without.
const heartbeatTimeout = callTimeout / 4

// readJournalHeartbeat asks the journal whose it is.
func (s *Server) readJournalHeartbeat(o region.ReadJournalHeartbeat) {
	ctx, cancel := context.WithTimeout(s.runner.ctx, heartbeatTimeout)
	defer cancel()
	heartbeat, err := s.runner.journal.Heartbeat(ctx)
	if err != nil {
		s.log.Debug("whose the journal is cannot be read", "error", err)
	}
	s.runner.control.put(controlItem{in: region.JournalHeartbeatRead{Number: o.Number, Heartbeat: heartbeat, OK: err == nil, Generation: s.runner.journal.Generation()}})
}

// receiver takes the messages of other processes.
type receiver struct{ s *Server }

// Receive hands one-way messages to the core.
func (r receiver) Receive(_ context.Context, from sharding.NodeID, msgs []control.Message, size int) error {
	items := make([]controlItem, len(msgs))
	for i, m := range msgs {
		items[i].in = region.Received{From: from.Addr, UID: from.UID, Msg: m}
	}
	return r.s.offer(size, items...)
}

// offer hands what comes from outside to the control loop, or refuses it: too much waits
// already. Its sender repeats what still matters.
func (s *Server) offer(size int, items ...controlItem) error {
	if err := s.runner.control.inbox.Offer(size, items...); err == nil {
		return nil
	} else if errors.Is(err, loop.ErrClosed) {
		return errStopping
	}
	s.controlFull.Warn(s.log, "too many messages of other processes wait for this region, more are refused and repeated by their senders")
	return errCrowded
}

var (
	errBusy     = twirp.NewError(twirp.DeadlineExceeded, "the region is too busy to answer")
	errCrowded  = twirp.NewError(twirp.ResourceExhausted, "too many messages wait for this region already; try again")
	errStopping = twirp.NewError(twirp.Unavailable, "stopping")
)

// Answer hands a call to the core and waits for the answer.
func (r receiver) Answer(ctx context.Context, from sharding.NodeID, m control.Message, size int) (control.Message, error) {
	s := r.s
	got := make(chan rpc.Answer, 1)
	var call control.Call
	if err := s.offer(size, controlItem{do: func() {
		if call = s.calls.Hold(from, got); call == 0 {
			got <- rpc.Answer{Err: errCrowded}
			return
		}
		s.runner.control.step(region.Received{From: from.Addr, UID: from.UID, Call: call, Msg: m})
	}}); err != nil {
		return nil, err
	}
	select {
	case a := <-got:
		return a.Msg, a.Err
	case <-ctx.Done():
		s.runner.control.do(func() { s.calls.Forget(call) })
		return nil, errBusy
	case <-s.runner.ctx.Done():
		return nil, errStopping
	}
}
