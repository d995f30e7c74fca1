package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/services/gateway"
)

// shedder makes the Shedder available to the handlers of all connections.
type shedder struct {
	some atomic.Bool // it is not empty
	mu   sync.RWMutex
	core *gateway.Shedder
}

// shed refuses a command before its body is read, or returns nil. timeout is the
// client's, 0 if there is none.
func (s *Server) shed(c *call, timeout time.Duration) *failure {
	d := &s.shedder
	if !d.some.Load() {
		return nil
	}
	if timeout <= 0 {
		timeout = s.cfg.Core.DefaultTimeout
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if !d.core.Sheds(c.Env.Entity, min(timeout, s.cfg.Core.MaxTimeout), c.arrived) {
		return nil
	}
	s.turnedAway.Add(1)
	f := gateway.Shed(&s.limits)
	return failureOf(&f)
}

// observeFinish tells the shedder the result of a command.
func (s *Server) observeFinish(c *call, f *router.Finish) {
	d := &s.shedder
	if !d.some.Load() && f.Reply.Code == "" {
		return
	}
	left := s.cfg.Core.DefaultTimeout
	if !c.Env.Deadline.IsZero() {
		left = c.Env.Deadline.Sub(c.arrived)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.core.Observe(c.Env.Entity, left, f, time.Now())
	d.some.Store(!d.core.Empty())
}

func (d *shedder) drop(now time.Time) {
	if !d.some.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.core.Drop(now)
	d.some.Store(!d.core.Empty())
}
