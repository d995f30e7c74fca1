package rpc

import (
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// maxCallsOfOne is the number of calls of one process that may wait. It makes one of a kind at a
// time; the others have lost patience.
const maxCallsOfOne = 16

// Answer is the answer to a call, or why there is none.
type Answer struct {
	Msg control.Message
	Err error
}

// Calls are the calls that wait for a core to answer them. They belong to the goroutine
// that steps the core.
type Calls struct {
	most    int
	last    control.Call
	waiting map[control.Call]held
	of      map[sharding.NodeID]int // how many wait
}

// held is a call that waits.
type held struct {
	from sharding.NodeID
	got  chan<- Answer
}

// NewCalls returns a set of calls; at most most calls may wait for an answer.
func NewCalls(most int) *Calls {
	return &Calls{most: most, waiting: map[control.Call]held{}, of: map[sharding.NodeID]int{}}
}

// Hold makes a call wait for its answer, which got must have room for. It returns 0 if
// too many wait already.
func (c *Calls) Hold(from sharding.NodeID, got chan<- Answer) control.Call {
	if len(c.waiting) >= c.most || c.of[from] >= maxCallsOfOne {
		return 0
	}
	c.last++
	c.waiting[c.last] = held{from, got}
	c.of[from]++
	return c.last
}

// Answer answers a call that still waits.
func (c *Calls) Answer(call control.Call, a Answer) {
	if h, waits := c.waiting[call]; waits {
		c.Forget(call)
		h.got <- a
	}
}

// Forget ends a call whose caller waits no more.
func (c *Calls) Forget(call control.Call) {
	h, waits := c.waiting[call]
	if !waits {
		return
	}
	delete(c.waiting, call)
	if c.of[h.from]--; c.of[h.from] == 0 {
		delete(c.of, h.from)
	}
}

// Len returns how many calls wait.
func (c *Calls) Len() int { return len(c.waiting) }
