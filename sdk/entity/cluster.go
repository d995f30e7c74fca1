package entity

import (
	"context"     // pure: handed on
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

// Cluster returns the way from a handler to other entities:
//
//	price, err := Price.Ask(ctx, ctx.Cluster(), item, in)
//
// It is valid until the handler returns, and carries one call at a time: a second one that is
// made meanwhile, by a goroutine of the handler, is refused. While the handler waits, its
// entity takes no other command. An answer must come within 80 % of the time that is left.
//
// Every handler can ask read-only commands. An ask for any other command changes another entity, and the
// handler's own work may fail afterwards. So there are rules:
//
//   - The running command has an idempotency key, runs for a reminder, or takes an answer (ReplyTo).
//     Otherwise the ask is refused as failed_precondition.
//   - The input of the ask follows from the running command alone, not from the state of the
//     entity. When the command runs again, its asks are the same and take effect once: the key
//     of each is derived from the running command, the asked entity and command, and how many of
//     these came before; or from a name, see [StepKey].
//   - If the handler then fails with anything but an error made by [Errorf], the outcome of its
//     command is unknown, not undone: what the other entity has done stays. The same command
//     must run again with the same key.
//
// The first such ask of a turn waits until the turns before it are durable: other entities
// never learn of a state that is lost afterwards.
//
// An ask of an entity that waits for the answer, directly or indirectly, fails as failed_precondition with
// the text "call cycle". Entities whose commands wait for each other without such a cycle are found as
// well: one ask fails as aborted with the text "deadlock".
//
// [Handle.Tell] is refused here: it would neither wait for the entity nor survive the turn.
func (c *Ctx) Cluster() Caller { return (*cluster)(c) }

// StepKey names an ask within a turn: its idempotency key is derived from the running command and
// this name, instead of the asked entity and command and their number. It is for a handler
// whose asks do not always come in the same order, and to repeat an ask whose outcome is
// unknown. A turn uses a name once, or to ask for the same again.
func StepKey(name string) Option { return func(c *Call) { c.Step = name } }

// cluster is Ctx as a Caller.
type cluster Ctx

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

// Call implements Caller.
func (c *cluster) Call(ctx context.Context, call Call) (sharding.Reply, error) {
	refuse := func(why string) (sharding.Reply, error) {
		return sharding.Reject(FailedPrecondition, "not sent: "+why), nil
	}
	switch {
	case c.asker == nil:
		return refuse(c.command + " is no command; only the handlers of commands can ask other entities")
	case call.Tell:
		return refuse("an entity does not Tell another one, because nothing would be left of that if its turn failed; use Ask or Send")
	case call.NoKey && !call.ReadOnly:
		return refuse("what an entity asks another one always has a key, or is read-only; leave NoKey out")
	case call.Key != "" && call.Step != "":
		return refuse("Key and Step exclude each other")
	}
	if why := c.calls.begin(); why != "" {
		return refuse(why)
	}
	defer c.calls.end()
	in := turn.Ask{
		Target: call.Entity, Command: call.Command, ReadOnly: call.ReadOnly,
		Key: sharding.CommandID(call.Key), KeyName: call.Step, Encoding: call.Encoding, Payload: call.Payload,
	}
	if d, ok := ctx.Deadline(); ok {
		in.Deadline = d
	}
	return c.asker.Ask(ctx, in), nil
}
