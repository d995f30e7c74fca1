package entity

import (
	"context" // pure: handed on
	"fmt"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Caller sends calls from outside: package client through a gateway, package entitytest in memory. Its errors are
// of type *[Error].
type Caller interface {
	Call(ctx context.Context, c Call) (Reply, error)
}

// Call is one command on its way to an entity, as a [Caller] sends it.
type Call struct {
	Type, ID, Command string
	// Key is the idempotency key; empty: the Caller generates one, unless NoKey is set.
	Key      string
	NoKey    bool
	Tell     bool
	ReadOnly bool
	// Payload is the input: a protobuf message, or JSON.
	Payload  []byte
	Protobuf bool
}

// Reply is the reply to a [Call].
type Reply struct {
	// Payload is a protobuf message, or JSON.
	Payload  []byte
	Protobuf bool
}

// CallOption is an option of one [Handle.Call] or [Handle.Tell].
type CallOption interface{ setCall(*Call) }

// AskOption is an option of one [Handle.Ask].
type AskOption interface{ setAsk(*asking) }

// KeyOption is an option of calls and asks.
type KeyOption struct{ key string }

func (o KeyOption) setCall(c *Call)  { c.Key = o.key }
func (o KeyOption) setAsk(a *asking) { a.ask.Key = sharding.CommandID(o.key) }

// Key gives a call or ask an idempotency key: the command takes effect at most once
// for this key and entity, and a repeat gets the first reply.
func Key(key string) KeyOption { return KeyOption{key} }

type callOption func(*Call)

func (o callOption) setCall(c *Call) { o(c) }

// NoKey sends the call without any key: it is not repeated when its answer is
// lost.
func NoKey() CallOption { return callOption(func(c *Call) { c.NoKey = true }) }

// Call sends the command from outside and waits for its reply. Errors are of type *[Error]. In a handler, use
// [Handle.Ask] or [Handle.Send].
func (h *Handle[In, Out]) Call(ctx context.Context, via Caller, id string, in In, options ...CallOption) (Out, error) {
	reply, err := h.call(ctx, via, id, in, false, options)
	if err != nil {
		var none Out
		return none, err
	}
	return h.reply(reply.Payload, encoding(reply.Protobuf))
}

// Tell sends the command from outside without waiting for its reply: it returns when the
// owner has accepted it, or, with a key, when it is durable.
func (h *Handle[In, Out]) Tell(ctx context.Context, via Caller, id string, in In, options ...CallOption) error {
	_, err := h.call(ctx, via, id, in, true, options)
	return err
}

func (h *Handle[In, Out]) call(ctx context.Context, via Caller, id string, in In, tell bool, options []CallOption) (Reply, error) {
	payload, enc, err := h.encode(in)
	if err != nil {
		return Reply{}, err
	}
	c := Call{
		Type: h.cmd.Type, ID: id, Command: h.Name(), Tell: tell, ReadOnly: h.cmd.Desc.ReadOnly,
		Payload: payload, Protobuf: enc == sharding.Protobuf,
	}
	for _, o := range options {
		o.setCall(&c)
	}
	return via.Call(ctx, c)
}

func (h *Handle[In, Out]) encode(in In) ([]byte, sharding.Encoding, error) {
	payload, enc, err := h.cmd.Encode(in)
	if err != nil {
		err = &Error{ask: true, Code: InvalidArgument, Outcome: NotApplied, Message: fmt.Sprintf("the input of %s.%s cannot be encoded: %v", h.cmd.Type, h.Name(), err)}
	}
	return payload, enc, err
}

func encoding(protobuf bool) sharding.Encoding {
	if protobuf {
		return sharding.Protobuf
	}
	return sharding.JSON
}

// reply decodes a reply.
func (h *Handle[In, Out]) reply(payload []byte, enc sharding.Encoding) (Out, error) {
	out, err := instance.DecodeReply[Out](payload, enc)
	if err != nil {
		var none Out
		return none, &Error{Code: Internal, Outcome: Executed, Message: fmt.Sprintf("the reply of %s.%s is not what its handle says: %v", h.cmd.Type, h.Name(), err)}
	}
	return out, nil
}

// asking is an ask with its options.
type asking struct {
	ask     turn.Ask
	context context.Context
}

type askOption func(*asking)

func (o askOption) setAsk(a *asking) { o(a) }

// StepKey names an ask within a turn: its idempotency key is derived from the running command and
// this name, instead of the asked entity and command and their number. It is for a handler
// whose asks do not always come in the same order, and to repeat an ask whose outcome is
// unknown. A turn uses a name once, or to ask for the same again.
func StepKey(name string) AskOption { return askOption(func(a *asking) { a.ask.KeyName = name }) }

// Until bounds the time that the turn waits for the answer: ctx is derived from the handler's [Ctx].
func Until(ctx context.Context) AskOption { return askOption(func(a *asking) { a.context = ctx }) }

// Ask sends the command from a handler to another entity and waits for its reply. Errors are of type *[Error].
// While the handler waits, its entity takes no other command. An answer must come within 80 % of the time that is
// left. A turn has one ask at a time: a second one that is made meanwhile, by a goroutine of the handler, is
// refused.
//
//	price, err := Price.Ask(ctx, item, in)
//
// Every handler can ask read-only commands. An ask for any other command changes another entity, and the
// handler's own work may fail afterwards. So there are rules:
//
//   - The running command has an idempotency key, runs for a reminder, or takes an answer (ReplyTo).
//     Otherwise the ask is refused as failed_precondition.
//   - The input of the ask depends only on the running command, not on the state of the
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
func (h *Handle[In, Out]) Ask(ctx *Ctx, id string, in In, options ...AskOption) (Out, error) {
	var none Out
	payload, enc, err := h.encode(in)
	if err != nil {
		return none, err
	}
	a := asking{context: ctx.Context, ask: turn.Ask{
		Target: h.entity(id), Command: h.Name(), ReadOnly: h.cmd.Desc.ReadOnly, Encoding: enc, Payload: payload,
	}}
	for _, o := range options {
		o.setAsk(&a)
	}
	reply := instance.Of(ctx).Ask(a.context, a.ask)
	if e := errorOf(&reply); e != nil {
		return none, e
	}
	return h.reply(reply.Payload, reply.Encoding)
}

func (h *Handle[In, Out]) entity(id string) sharding.Entity {
	return sharding.Entity{Type: sharding.EntityType(h.cmd.Type), ID: sharding.EntityID(id)}
}
