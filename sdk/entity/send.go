package entity

import (
	"errors"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Send sends the command to another entity, whose type may belong to another program, when the
// events of this turn are durable. It is staged like an event, and counts only if the handler
// succeeds.
//
// The command takes effect at most once, and is retried until its target has answered: for 23 h as a
// rule ([Handle.MaxAge]; see also [Handle.Timeout] and [Handle.Retry]). What an entity sends to one
// target arrives in order: each waits until the one before it has been answered. With [ReplyTo] a
// command of this entity receives the answer. Without it, the answer is dropped if it is success. A
// refusal, or a target that has not answered in time, then becomes a *dead letter*, which the region
// logs and counts, and the journal keeps. A volatile target keeps no keys: there the command may take
// effect more than once, or be forgotten.
//
// The input is stored until it is delivered, perhaps by a later version of the program: see
// [Handle.Stored], without which the turn fails. A turn may send at most 1,000 commands: one that
// sends more is undone and refused as failed_precondition. An entity may have at most 10,000 that
// are pending: beyond that the turn is undone and refused as resource_exhausted. If the input
// cannot be stored, or the command is read-only, the turn fails. So it does in a read-only
// command, and for a volatile type, which keeps nothing: use Ask there.
func (h *Handle[In, Out]) Send(ctx *Ctx, id string, in In, opts ...SendOption[Out]) {
	x := sending{ctx: ctx, send: sharding.Send{To: h.Entity(id), Options: h.options}}
	err := ctx.maySend(x.send.To)
	if err == nil {
		err = h.checkCommand()
	}
	if err == nil && h.desc.ReadOnly {
		err = misused("%s only reads, so that nothing would come of it; use Ask", h.desc.Name)
	}
	if err == nil && h.options.Check() != nil {
		err = &misuse{h.options.Check()}
	}
	if err == nil {
		x.send.Input, err = h.encodeInput(in)
	}
	for _, o := range opts {
		if err == nil {
			err = o.apply(&x)
		}
	}
	switch {
	case err != nil:
		ctx.breakTurn(fmt.Sprintf("send %s to %s", h.desc.Name, x.send.To), err)
	case len(ctx.wants().sends) <= maxSends: // one more than allowed: then the turn is refused
		e := ctx.change()
		e.sends = append(e.sends, x.send)
	}
}

// checkCommand returns an error for a handle that was made with a name that no command can have.
func (h *Handle[In, Out]) checkCommand() error {
	if err := sharding.CheckType("command", h.desc.Name); err != nil {
		return misused("no type has such a command: %w", err)
	}
	return nil
}

// maxSends bounds the commands that a turn may send: as many as a record may have.
const maxSends = 1000

// maySend returns an error unless the running turn may send commands to the entity.
func (c *Ctx) maySend(to sharding.Entity) error {
	switch err := to.Check(); {
	case c.calls.ended():
		return ErrTurnOver
	case c.inst.def.volatile:
		return misused("type %s is volatile and keeps nothing; use Ask", c.inst.def.name)
	case c.readOnly:
		return misused("%s changes nothing, so it cannot send", c.command)
	case err != nil:
		return misused("the target has no name: %w", err)
	}
	return nil
}

// SendOption changes one Send of a command with replies of type Out.
type SendOption[Out any] struct{ apply func(*sending) error }

// sending is a send that is being made.
type sending struct {
	ctx  *Ctx
	send sharding.Send
}

// ReplyTo passes the answer to a Send to a command of the sender, whose input is an [Answer]: the reply, a
// refusal, or that there was no answer in time. The command takes effect once, like a reminder's: what it
// stages becomes durable together with the end of the send. Until then nothing else is sent to the same
// target. If it fails with anything but an error made by [Errorf], it is undone and retried.
func ReplyTo[Out, X any](h *Handle[Answer[Out], X]) SendOption[Out] {
	return SendOption[Out]{func(x *sending) error {
		def := x.ctx.inst.def
		if b := def.commands[h.desc.Name]; h.typ != def.name || b == nil {
			return misused("the answer is for command %s.%s, which is not one of type %s; the sender itself must take it", h.typ, h.desc.Name, def.name)
		}
		x.send.ReplyTo = h.desc.Name
		return nil
	}}
}

// Answer is the input of the command of a [ReplyTo]: the result of a send. [Handle.Sent] identifies the
// send.
type Answer[Out any] struct {
	From    sharding.Entity // the target
	Command string          // what was sent to it
	// Value is the reply, if Err is nil.
	Value Out
	// Err is the reason why there is none. Its Outcome is OK if the target itself has refused the command,
	// by an error made by [Errorf]; Rejected if the command was not applied for another reason, such as an
	// input that the target does not understand; and Unknown if it is in doubt: the target has not answered
	// in time, and may have applied it.
	Err *Error

	sent sharding.Input
}

// Sent returns the input of the send that an answer belongs to, as it was passed to [Handle.Send]. An
// author who has several sends in progress names each in its input, and keeps them by that name: the input
// stays the same if an operator has a dead letter sent again. Neither the order of the answers nor their
// number identifies the send, because an answer that the sender could not take in time never comes.
//
// If an older version of the program has sent the input, the steps of [Handle.V] read it. If it cannot be
// read, or the answer is one to another command, there is an error; a handler that returns it is undone and
// gets the answer again.
func (h *Handle[In, Out]) Sent(a Answer[Out]) (In, error) {
	var none In
	if a.From.Type != sharding.EntityType(h.typ) || !slices.Contains(h.input.names(), a.Command) {
		return none, fmt.Errorf("the answer is one to %s.%s, not to %s.%s", a.From.Type, a.Command, h.typ, h.desc.Name)
	}
	ev := eventOf(&a.sent)
	v, _, err := h.input.decode(ev)
	if err != nil {
		return none, fmt.Errorf("the input of %s that was sent to %s cannot be read: %w; %s", h.desc.Name, a.From, err, h.input.fix(ev))
	}
	got, _ := v.(In) // the zero value of an interface is none
	return got, nil
}

// answerTaker is *Answer of any type.
type answerTaker interface {
	takeAnswer(a *turn.SendResult) error
}

func (a *Answer[Out]) takeAnswer(in *turn.SendResult) (err error) {
	a.From, a.Command, a.sent = in.Target, in.Sent.Command, in.Sent
	if r := &in.Reply; r.Outcome != sharding.OK || r.Code != "" {
		a.Err = &Error{Code: r.Code, Message: r.Message, Outcome: r.Outcome}
		return nil
	}
	a.Value, err = decodeReply[Out](in.Reply.Payload, in.Reply.Encoding)
	return err
}

// takesAnswers reports whether inputs of the type are answers.
func takesAnswers[In any]() bool {
	_, ok := any(new(In)).(answerTaker)
	return ok
}

// errAnswerOnly refuses a caller who sends what only a target can answer.
var errAnswerOnly = errors.New("the command takes answers to what the entity has sent, and nothing from callers")
