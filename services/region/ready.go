package region

import (
	"github.com/roost-cluster/roost/libs/control"
)

// A platform that replaces regions one after the other continues when the newest is ready.
// So a region is ready when it is registered and the shards that a rollout brings to it
// have come: then the regions that left before are empty, and the next one may leave. It
// stays ready after that, whatever becomes of the coordinator: otherwise one that is lost
// would make all regions unready at once.

// readiness tracks whether this region is ready, and the number of shards that it waits for.
type readiness struct {
	latched bool
	call    repeated // CountDue
	// due is the number of shards in the last answer, if it is known. A coordinator that does not answer holds
	// nothing back.
	due   int
	known bool
}

// Ready reports whether this region is ready, and if it is registered and waits for
// shards, for how many; -1: the coordinator has not said yet.
func (c *ControlCore) Ready() (ready bool, due int) {
	r := &c.readiness
	_, _, registered := c.Coordinator()
	switch {
	case r.latched, registered && r.known && r.due == 0:
		return true, 0
	case !r.known:
		return false, -1
	}
	return false, r.due
}

// countDue asks the coordinator which shards are on their way, until there are none.
func (c *ControlCore) countDue() {
	to, _, registered := c.Coordinator()
	if registered && !c.readiness.latched && !c.left && c.due(&c.readiness.call, to) {
		c.readiness.call = repeated{at: c.now, askedOf: to}
		c.emit(Send{To: to, Msg: control.CountDue{}})
	}
}

func (c *ControlCore) dueAck(in control.DueAck) {
	if c.current(in.Term) && in.Term == c.registered {
		r := &c.readiness
		r.due, r.known = max(in.Due, 0), true
		r.latched = r.latched || r.due == 0 //mutant:false ready-latch r.due == 0
	}
}

// dueUnanswered takes a coordinator that gives no answer for one that knows of nothing.
func (c *ControlCore) dueUnanswered() { c.readiness.due, c.readiness.known = 0, true }
