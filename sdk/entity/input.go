package entity

import (
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Inputs of reminders and sends are stored until their command runs. They are read as events are:
// by the name of the command, or an alias of it, by their version, and strictly.

// Stored allows storing inputs of the command: by [Handle.Remind], [Handle.RemindEvery] and [Handle.Send],
// which fail without it. Then the input's fields are in the schema of the type, like an event's, and each
// change of them needs [Handle.V]. A send is read by the program of its target. If that program and the
// sender's declare the command each for itself, both do so with Stored.
func (h *Handle[In, Out]) Stored() *Handle[In, Out] {
	h.stored = true
	return h
}

// V sets the version in which inputs are stored from now on, 1 to 65535, and the steps that read stored
// inputs of older versions, as [EventType.V] does for events. The version must be raised with every change
// of the input's fields. Inputs from callers have no version.
func (h *Handle[In, Out]) V(version int, steps ...Step) *Handle[In, Out] {
	h.input.V(version, steps...)
	return h
}

// ReadableBy lets a program read a stored input if it knows at least the given version of it, as
// [EventType.ReadableBy] does for events.
func (h *Handle[In, Out]) ReadableBy(version int) *Handle[In, Out] {
	h.input.ReadableBy(version)
	return h
}

// Alias gives names that the command had before. Commands that were stored under such a name (reminders,
// sends of other entities, and the answers that a [ReplyTo] has asked for) can still run, and callers may
// still use it.
func (h *Handle[In, Out]) Alias(names ...string) *Handle[In, Out] {
	h.input.Alias(names...)
	return h
}

// encodeInput encodes an input that is stored, and read by whatever version runs then.
func (h *Handle[In, Out]) encodeInput(in In) (sharding.Input, error) {
	switch {
	case takesAnswers[In]():
		return sharding.Input{}, errAnswerOnly
	case !h.stored:
		return sharding.Input{}, misused("the input of %s is not declared as one that is stored: add Stored() to the command, on the side of its entity too", h.desc.Name)
	}
	payload, enc, err := h.encode(in)
	if err != nil {
		return sharding.Input{}, fmt.Errorf("the input of %s cannot be encoded: %w", h.desc.Name, err)
	}
	if len(payload) > sharding.MaxPayload {
		return sharding.Input{}, misused("the input of %s has %d bytes, at most %d are allowed", h.desc.Name, len(payload), sharding.MaxPayload)
	}
	ev := h.input.stored(payload, enc)
	if err := h.input.check(); err != nil {
		return sharding.Input{}, err
	}
	if !h.input.same(ev) {
		if _, err := h.input.decodeAs(ev, false); err != nil {
			return sharding.Input{}, fmt.Errorf("the input of %s cannot be read back from %.200q: %w", h.desc.Name, payload, markOwn(err))
		}
	}
	return sharding.Input{
		Command: h.desc.Name, Version: ev.Version, ReadableBy: ev.ReadableBy, Shape: fingerprint(shapeOf(h.input.typ)),
		Encoding: enc, Payload: payload,
	}, nil
}

// inputOf decodes the input of a command: from a caller, from a stored reminder or send, or an answer.
func inputOf[In, Out any](h *Handle[In, Out], ctx *Ctx, env *sharding.Envelope) (In, error) {
	var none In
	if a, ok := any(&none).(answerTaker); ok {
		if ctx.wakeup == nil || ctx.wakeup.Answer == nil {
			return none, errAnswerOnly
		}
		err := a.takeAnswer(ctx.wakeup.Answer)
		return none, err
	}
	switch {
	case ctx.wakeup == nil && env.Version == 0:
		if in, ok := ctx.decoded.value.(In); ok {
			return in, nil
		}
		return decode[In](env.Payload, env.Encoding, h.input.layout)
	case ctx.wakeup != nil && ctx.wakeup.Answer != nil:
		return none, ctx.inst.noAnswers(env.Command)
	}
	in := sharding.Input{Command: env.Command, Version: env.Version, ReadableBy: env.ReadableBy, Encoding: env.Encoding, Payload: env.Payload}
	what := "input that another entity has sent for " + env.Command + ","
	if ctx.wakeup != nil {
		in = ctx.wakeup.Input
		what = fmt.Sprintf("input of reminder %s for %s", ctx.wakeup.Name, in.Command)
	}
	ev := eventOf(&in)
	v, err := h.input.decodeInput(ev, h.stored)
	if err != nil {
		return none, ctx.inst.unreadable(what, err, h.input.fixInput(ev, h.stored))
	}
	got, _ := v.(In) // the zero value of an interface is none
	return got, nil
}

// eventOf is the input as an event, which it is read like.
func eventOf(in *sharding.Input) sharding.Event {
	return sharding.Event{Name: in.Command, Version: in.Version, ReadableBy: in.ReadableBy, Encoding: in.Encoding, Payload: in.Payload}
}

// decodeInput reads an input that was stored.
func (e *EventType) decodeInput(ev sharding.Event, stored bool) (any, error) {
	if !stored {
		return nil, errors.New("the command is not declared as one whose inputs are stored")
	}
	v, _, err := e.decode(ev)
	return v, err
}

// fixInput returns the advice for the author about an input that decodeInput cannot read.
func (e *EventType) fixInput(ev sharding.Event, stored bool) string {
	if !stored {
		return "add Stored() to command " + e.name
	}
	return e.fix(ev)
}

// CheckStored returns an error unless a type reads a stored input for one of its commands: the input of a
// reminder of the entity, or one that another entity has sent to it. The error is a [*StoredError].
func CheckStored(t Definition, of sharding.Entity, in *sharding.Input) (err error) {
	d, what := t.definition(), "input of "+in.Command
	inst := &Instance{def: d, id: of.ID}
	b := d.commands[in.Command]
	if b == nil {
		return inst.unreadable(what, errors.New("this program has no such command"), fixNoCommand(in.Command, ", with Stored"))
	}
	defer inst.recovered("a step of "+in.Command, &err)
	ev := eventOf(in)
	_, err = b.input.decodeInput(ev, b.stored)
	return inst.unreadable(what, err, b.input.fixInput(ev, b.stored))
}

// CheckTakesAnswers returns an error unless the type has a command with the name, or with that
// alias, that takes the answers to what the entity has sent. The error is a [*StoredError].
func CheckTakesAnswers(t Definition, of sharding.Entity, command string) error {
	d := t.definition()
	if b := d.commands[command]; b != nil && b.answers {
		return nil
	}
	return (&Instance{def: d, id: of.ID}).noAnswers(command)
}

// noAnswers is the error about an answer that is for a command which takes none.
func (i *Instance) noAnswers(command string) error {
	return i.unreadable("answer for "+command, errors.New("this program has no such command, or the command takes no answers"), fixNoCommand(command, ""))
}

func fixNoCommand(name, how string) string {
	return fmt.Sprintf("if a later version of the program has stored it, run that version; otherwise bind %s again%s, or give the command that it has become an Alias(%q)", name, how, name)
}
