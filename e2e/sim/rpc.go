package sim

import (
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// callTimeout is the time after which the caller gives up.
const callTimeout = 2500 * ms

// messageTaker is a program that takes control messages.
type messageTaker interface {
	// receive takes a one-way message.
	receive(from sharding.NodeID, m control.Message)
	// serveCall takes a call, and calls reply once, or never. It returns the function that is
	// called when no caller waits for the answer any more.
	serveCall(from sharding.NodeID, m control.Message, reply func(control.Message)) (ended func())
}

// call asks the process at an address on behalf of another. done runs once, in the
// process's loop, with the answer or nil. A refused connection is noticed at once.
func (w *World) call(p *process, to string, m control.Message, done func(control.Message)) {
	target := w.process(to)
	incarnation, over := p.incarnation, false
	answer := func(a control.Message) {
		if p.incarnation == incarnation && !over {
			over = true
			p.post(func() { done(a) })
		}
	}
	w.after(callTimeout, func() { answer(nil) })
	if target == nil {
		w.violate("driver", "%s calls unknown address %q", p.name, to)
		return
	}
	from := p.id()
	w.net.send(p.host, target.host, func() {
		r, ok := target.body.(messageTaker)
		if !target.up || !ok {
			w.net.send(target.host, p.host, func() { answer(nil) })
			return
		}
		target.post(func() {
			served := target.incarnation
			ended := r.serveCall(from, m, func(a control.Message) {
				if err := control.CheckAnswer(m, a); err != nil {
					w.violate("driver", "%s: %v", target.name, err)
				}
				w.net.send(target.host, p.host, func() { answer(a) })
			})
			w.after(callTimeout, func() {
				if target.incarnation == served {
					target.post(ended)
				}
			})
		})
	})
}

// tell sends a one-way message to a process. A UID of 0 means whichever incarnation is
// there; another one than is meant does not take it.
func (w *World) tell(p *process, to sharding.NodeID, m control.Message) {
	target := w.process(to.Addr)
	if target == nil {
		w.violate("driver", "%s sends to unknown address %q", p.name, to.Addr)
		return
	}
	from := p.id()
	w.net.send(p.host, target.host, func() {
		target.post(func() {
			if to.UID != 0 && target.uid != to.UID {
				w.mark("message to a former incarnation")
				return
			}
			if r, ok := target.body.(messageTaker); ok {
				r.receive(from, m)
			}
		})
	})
}

// calls are those that wait for a core to answer them.
type calls struct {
	w       *World
	p       *process
	last    control.Call
	waiting map[control.Call]func(control.Message)
}

func newCalls(w *World, p *process) calls {
	return calls{w: w, p: p, waiting: map[control.Call]func(control.Message){}}
}

func (c *calls) begin(reply func(control.Message)) control.Call {
	c.last++
	c.waiting[c.last] = reply
	return c.last
}

// reply answers a call; there must be one.
func (c *calls) reply(call control.Call, m control.Message) {
	reply := c.waiting[call]
	if reply == nil {
		c.w.violate("driver", "%s answers call %d twice, or it never came: %s", c.p.name, call, control.Name(m))
		return
	}
	delete(c.waiting, call)
	reply(m)
}

// end forgets a call whose caller waits no more. It reports whether it was not answered.
func (c *calls) end(call control.Call) bool {
	_, waits := c.waiting[call]
	delete(c.waiting, call)
	return waits
}
