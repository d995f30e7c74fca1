package server

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// call is one command of one client on its way through the loop. Between submit and end,
// env belongs to the loop.
type call struct {
	id      gateway.RequestID
	env     sharding.Envelope
	arrived time.Time
	finish  gateway.Finish // once done
	done    chan struct{}  // capacity 1; the loop sends once
}

// end is called by the loop, once per submitted call.
func (c *call) end(f *gateway.Finish) {
	c.finish = *f
	c.done <- struct{}{}
}

// calls has the calls that can be reused: those whose end was received.
var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

func newCall(env sharding.Envelope, arrived time.Time) *call {
	c := calls.Get().(*call)
	c.env, c.arrived = env, arrived
	return c
}

func (c *call) release() {
	c.id, c.env, c.finish = 0, sharding.Envelope{}, gateway.Finish{}
	calls.Put(c)
}

// check refuses commands that could never be admitted. It generates an id for a command
// without key.
func (s *Server) check(c *call, timeout time.Duration) *failure {
	env := &c.env
	if err := env.Check(); err != nil {
		return refusal(sharding.InvalidArgument, err.Error())
	}
	if env.Encoding > sharding.Protobuf {
		return refusal(sharding.InvalidArgument, "encoding is not known; use ENCODING_JSON or ENCODING_PROTOBUF")
	}
	if len(env.Payload) > int(s.cfg.MaxPayload) {
		return tooLong(int64(s.cfg.MaxPayload))
	}
	c.id = gateway.RequestID(s.lastCall.Add(1))
	if !env.Keyed {
		env.ID = s.commandID(c.id)
	}
	if timeout > 0 {
		env.Deadline = c.arrived.Add(min(timeout, s.cfg.MaxTimeout))
	}
	if s.stopping.Load() {
		return failureOf(&gateway.Finish{Reply: errStopping, RetryAfter: s.retryHint})
	}
	return nil
}

// commandID returns the id of a command without key, from this incarnation of the gateway
// and the number of the call.
func (s *Server) commandID(id gateway.RequestID) sharding.CommandID {
	var buf [40]byte
	b := append(buf[:0], s.idPrefix...)
	return sharding.CommandID(strconv.AppendUint(b, uint64(id), 36))
}

// submit passes calls to the loop, without others between them. If it cannot, it ends all
// of them.
func (s *Server) submit(cs ...*call) {
	var few [1]item // a command that comes alone takes no memory here
	items := few[:0]
	for _, c := range cs {
		items = append(items, item{call: c})
	}
	var reply *sharding.Reply
	switch err := s.inbox.Offer(0, items...); {
	case err == nil:
		return
	case errors.Is(err, loop.ErrClosed):
		reply = &errStopping
	default:
		reply = &errFull
	}
	for _, c := range cs {
		c.end(&gateway.Finish{Request: c.id, Reply: *reply, RetryAfter: s.retryHint})
	}
}

// wait waits for the end of a call. It returns false if ctx is done first: the call is
// then given up, may still be ended by the loop, and must not be reused.
func (s *Server) wait(ctx context.Context, c *call) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		s.put(func() { s.abandon(c) })
		return false
	}
}

// abandon ends a call for which nobody waits any more. It must be called by the loop.
func (s *Server) abandon(c *call) {
	if s.calls[c.id] == nil { // it has ended meanwhile, and nobody takes its reply
		s.step(gateway.Delivered{Bytes: c.finish.Held})
		return
	}
	delete(s.calls, c.id)
	s.step(gateway.Cancel{Request: c.id})
}
