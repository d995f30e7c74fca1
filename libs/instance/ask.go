package instance

import (
	"context" // pure: handed on
	"fmt"
	"sync/atomic" // pure: no goroutine waits for a second caller

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Asker sends the asks of a running turn, as a runtime does it: it fills in what identifies
// the turn, steps the entity core, and returns the reply of [turn.AskDone]. When ctx ends
// first, it withdraws the ask.
type Asker interface {
	Ask(ctx context.Context, a turn.Ask) sharding.Reply
}

// calls reports whether a turn may ask for something, or has ended.
type calls struct{ state atomic.Uint32 }

// Bits of calls.state.
const (
	callBusy  = 1 << iota // the handler waits for an answer
	callsOver             // the handler has returned
)

// begin reports why nothing can be sent; empty: it can, until end is called.
func (c *calls) begin() string {
	for {
		switch old := c.state.Load(); {
		case old&callsOver != 0:
			return "the handler has returned"
		case old&callBusy != 0:
			return "the handler waits for another answer already; it can ask for one at a time"
		case c.state.CompareAndSwap(old, old|callBusy):
			return ""
		}
	}
}

func (c *calls) end() { c.state.And(^uint32(callBusy)) }

// ended reports whether the handler has returned.
func (c *calls) ended() bool { return c.state.Load()&callsOver != 0 }

func (c *calls) close() { c.state.Or(callsOver) }

// Ask asks another entity, and waits for its reply.
func (t *Turn) Ask(ctx context.Context, a turn.Ask) sharding.Reply {
	refuse := func(why string) sharding.Reply {
		return sharding.Reject(sharding.FailedPrecondition, "not sent: "+why)
	}
	switch {
	case t.asker == nil:
		return refuse(t.command + " is not a command; only the handlers of commands can ask other entities")
	case a.Key != "" && a.KeyName != "":
		return refuse("Key and StepKey exclude each other")
	}
	if why := t.calls.begin(); why != "" {
		return refuse(why)
	}
	defer t.calls.end()
	// The turn will be undone, and the other entity would keep what it does for it.
	if broken := t.wants().broken; broken != nil && !a.ReadOnly {
		return refuse(fmt.Sprintf("the turn has failed already: %v", broken))
	}
	if d, ok := ctx.Deadline(); ok {
		a.Deadline = d
	}
	return t.asker.Ask(ctx, a)
}
