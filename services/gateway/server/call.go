package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/router/driver"
	"github.com/roost-cluster/roost/libs/sharding"
)

// call is one command of one client on its way through the router.
type call struct {
	driver.Call
	server  *Server
	arrived time.Time
	from    string        // address of the client, as http.Request.RemoteAddr
	finish  router.Finish // once done
	done    chan struct{} // capacity 1; the loop sends once
}

// end is called by the loop, once per submitted call.
func (c *call) end(f *router.Finish) {
	c.server.observeFinish(c, f)
	c.finish = *f
	c.done <- struct{}{}
}

// calls has the calls that can be reused: those whose end was received.
var calls = sync.Pool{New: func() any {
	c := &call{done: make(chan struct{}, 1)}
	c.End = c.end
	return c
}}

func (s *Server) newCall(env sharding.Envelope, arrived time.Time) *call {
	c := calls.Get().(*call)
	c.server, c.Env, c.arrived = s, env, arrived
	return c
}

func (c *call) release() {
	c.server, c.ID, c.Env, c.from, c.finish = nil, 0, sharding.Envelope{}, "", router.Finish{}
	calls.Put(c)
}

// check refuses commands that could never be admitted, and numbers the others.
func (s *Server) check(c *call, timeout time.Duration) *failure {
	env := &c.Env
	if err := env.Check(); err != nil {
		return refusal(sharding.InvalidArgument, err.Error())
	}
	if sharding.IsBuiltin(env.Command) {
		return refusal(sharding.PermissionDenied, fmt.Sprintf("%.40q is kept for Roost itself; operators use roost entity", env.Command))
	}
	if err := s.policy.Check(env); err != nil {
		return refusal(sharding.PermissionDenied, err.Error())
	}
	if env.Encoding > sharding.Protobuf {
		return refusal(sharding.InvalidArgument, "encoding is not known; use ENCODING_JSON or ENCODING_PROTOBUF")
	}
	if len(env.Payload) > int(s.cfg.MaxPayload) {
		return tooLong(int64(s.cfg.MaxPayload))
	}
	s.router.Number(&c.Call)
	if timeout > 0 {
		env.Deadline = c.arrived.Add(min(timeout, s.cfg.Core.MaxTimeout))
	}
	if s.stopping.Load() {
		return failureOf(&router.Finish{Reply: errStopping, RetryAfter: s.retryHint})
	}
	return nil
}

var (
	errStopping = sharding.Reject(sharding.Unavailable, "this gateway is stopping")
	errFull     = sharding.Reject(sharding.ResourceExhausted, "too many commands wait in this gateway")
)

// submit passes calls to the router, without others between them. If it cannot, it ends
// all of them.
func (s *Server) submit(cs ...*call) {
	var few [1]*driver.Call // a command that comes alone takes no memory here
	list := few[:0]
	for _, c := range cs {
		list = append(list, &c.Call)
	}
	var reply *sharding.Reply
	switch err := s.router.Submit(list...); {
	case err == nil:
		return
	case errors.Is(err, loop.ErrClosed):
		reply = &errStopping
	default:
		reply = &errFull
	}
	s.turnedAway.Add(int64(len(cs)))
	for _, c := range cs {
		c.end(&router.Finish{Request: c.ID, Reply: *reply, RetryAfter: s.retryHint})
	}
}

// wait waits for the end of a call. It returns false if ctx is done first: the call is
// then given up, may still be ended by the loop, and must not be reused.
func (s *Server) wait(ctx context.Context, c *call) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		// If it has ended meanwhile, no caller takes its reply.
		s.router.Abandon(&c.Call, func() { s.router.Step(router.Delivered{Bytes: c.finish.Held}) })
		return false
	}
}
