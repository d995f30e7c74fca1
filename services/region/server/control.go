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

// callTimeout bounds one call to a coordinator: the core retries unanswered calls, and looks for
// another coordinator after the same time.
const callTimeout = 2 * time.Second

// maxCalls limits the calls of other processes that wait for an answer of the core. The core answers in the
// step that receives the call, so few wait.
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
		s.runner.control.put(controlItem{do: func() { s.noteCallResult(o, err) }}, controlItem{in: region.Replied{From: o.To, Asked: o.Msg, Msg: answer}})
	}()
}

// callResult is the result of the last call of a kind.
type callResult struct {
	err    error     // nil: the call succeeded
	logged string    // the error that was logged last; empty after a success
	at     time.Time // of that log line
}

// callLogInterval is the minimum interval between log lines about failed calls of one kind, because
// the core retries them indefinitely.
const callLogInterval = 10 * time.Second

// noteCallResult records the result of a call. It logs an error if the previous log line about
// this kind of call had another one.
func (s *Server) noteCallResult(o region.Send, err error) {
	name := control.Name(o.Msg)
	c := s.callResults[name]
	if c.err = err; err == nil {
		c.logged = ""
	} else if now := time.Now(); c.logged != err.Error() && now.Sub(c.at) >= callLogInterval && s.runner.ctx.Err() == nil {
		c.logged, c.at = err.Error(), now
		s.log.Warn("call to the coordinator failed, retrying", "call", name, "coordinator", o.To, "error", err)
	}
	s.callResults[name] = c
}

// journalHeartbeatTimeout bounds reading the journal heartbeat. After a timeout, the region registers
// without naming the cluster that owns its journal.
const journalHeartbeatTimeout = callTimeout / 4

// readJournalHeartbeat reads which cluster owns the journal.
func (s *Server) readJournalHeartbeat(o region.ReadJournalHeartbeat) {
	ctx, cancel := context.WithTimeout(s.runner.ctx, journalHeartbeatTimeout)
	defer cancel()
	heartbeat, err := s.runner.journal.Heartbeat(ctx)
	if err != nil {
		s.log.Debug("journal heartbeat not read", "error", err)
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

// offer adds items of other processes to the inbox of the control loop. It refuses them if the
// inbox is full; the sender retries what still matters.
func (s *Server) offer(size int, items ...controlItem) error {
	if err := s.runner.control.inbox.Offer(size, items...); err == nil {
		return nil
	} else if errors.Is(err, loop.ErrClosed) {
		return errStopping
	}
	s.inboxFull.Warn(s.log, "inbox full, rejecting messages", "hint", "senders will retry")
	return errOverloaded
}

var (
	errBusy       = twirp.NewError(twirp.DeadlineExceeded, "the region is too busy to answer")
	errOverloaded = twirp.NewError(twirp.ResourceExhausted, "the region has too many unprocessed messages; try again")
	errStopping   = twirp.NewError(twirp.Unavailable, "stopping")
)

// Answer hands a call to the core and waits for the answer.
func (r receiver) Answer(ctx context.Context, from sharding.NodeID, m control.Message, size int) (control.Message, error) {
	s := r.s
	got := make(chan rpc.Answer, 1)
	var call control.Call
	if err := s.offer(size, controlItem{do: func() {
		if call = s.calls.Hold(from, got); call == 0 {
			got <- rpc.Answer{Err: errOverloaded}
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
