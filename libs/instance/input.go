package instance

import (
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Inputs of reminders and sends are stored until their command runs. They are read as events are:
// by the name of the command, or an alias of it, by their version, and strictly.

// ErrAnswerOnly refuses a caller who sends what only a target can answer.
var ErrAnswerOnly = errors.New("the command takes answers to what the entity has sent, and nothing from callers")

// store encodes an input that is stored, and read by whatever version runs then.
func (c *Command) store(in any) (sharding.Input, error) {
	switch {
	case c.Answers:
		return sharding.Input{}, ErrAnswerOnly
	case !c.Stored:
		return sharding.Input{}, misused("the input of %s is not declared as one that is stored: add Stored() to the command, on the side of its entity too", c.Desc.Name)
	}
	payload, enc, err := c.Encode(in)
	if err != nil {
		return sharding.Input{}, fmt.Errorf("the input of %s cannot be encoded: %w", c.Desc.Name, err)
	}
	if len(payload) > sharding.MaxPayload {
		return sharding.Input{}, misused("the input of %s has %d bytes, at most %d are allowed", c.Desc.Name, len(payload), sharding.MaxPayload)
	}
	ev := c.Input.stored(payload, enc)
	if err := c.Input.check(); err != nil {
		return sharding.Input{}, err
	}
	if !c.Input.same(ev) {
		if _, err := c.Input.decodeAs(ev, false); err != nil {
			return sharding.Input{}, fmt.Errorf("the input of %s cannot be read back from %.200q: %w", c.Desc.Name, payload, markOwn(err))
		}
	}
	return sharding.Input{
		Command: c.Desc.Name, Version: ev.Version, ReadableBy: ev.ReadableBy, Shape: fingerprint(shapeOf(c.Input.typ)),
		Encoding: enc, Payload: payload,
	}, nil
}

// CheckInputOf decodes the input of a command before its turn, so that a bad one is refused early, see [Command.Check].
func CheckInputOf[In any](c *Command, env *sharding.Envelope) (any, error) {
	if c.Answers {
		return nil, ErrAnswerOnly
	}
	if env.Version != 0 { // it was stored, perhaps by another version of the program
		return nil, nil
	}
	return decode[In](env.Payload, env.Encoding, c.Input.layout)
}

// InputOf decodes the input of a command for its turn: from a caller, or from a stored reminder or send. The
// error is a [*BadInput].
func InputOf[In any](c *Command, t *Turn, env *sharding.Envelope) (In, error) {
	in, err := inputOf[In](c, t, env)
	if err != nil {
		err = &BadInput{err}
	}
	return in, err
}

func inputOf[In any](c *Command, t *Turn, env *sharding.Envelope) (In, error) {
	var none In
	switch {
	case t.wakeup == nil && env.Version == 0:
		if in, ok := t.decoded.value.(In); ok {
			return in, nil
		}
		return decode[In](env.Payload, env.Encoding, c.Input.layout)
	case t.wakeup != nil && t.wakeup.Answer != nil:
		return none, t.inst.noAnswers(env.Command)
	}
	in := sharding.Input{Command: env.Command, Version: env.Version, ReadableBy: env.ReadableBy, Encoding: env.Encoding, Payload: env.Payload}
	what := "input that another entity has sent for " + env.Command + ","
	if t.wakeup != nil {
		in = t.wakeup.Input
		what = fmt.Sprintf("input of reminder %s for %s", t.wakeup.Name, in.Command)
	}
	ev := eventOf(&in)
	v, err := c.decodeInput(ev)
	if err != nil {
		return none, t.inst.unreadable(what, err, c.fixInput(ev))
	}
	got, _ := v.(In) // the zero value of an interface is none
	return got, nil
}

// SentInput decodes the input of a send of the command to an entity, perhaps by an older version of the
// program.
func (c *Command) SentInput(to sharding.Entity, in *sharding.Input) (any, error) {
	ev := eventOf(in)
	v, _, err := c.Input.decode(ev)
	if err != nil {
		return nil, fmt.Errorf("the input of %s that was sent to %s cannot be read: %w; %s", c.Desc.Name, to, err, c.Input.fix(ev))
	}
	return v, nil
}

// eventOf is the input as an event, which it is read like.
func eventOf(in *sharding.Input) sharding.Event {
	return sharding.Event{Name: in.Command, Version: in.Version, ReadableBy: in.ReadableBy, Encoding: in.Encoding, Payload: in.Payload}
}

// decodeInput reads an input that was stored.
func (c *Command) decodeInput(ev sharding.Event) (any, error) {
	if !c.Stored {
		return nil, errors.New("the command is not declared as one whose inputs are stored")
	}
	v, _, err := c.Input.decode(ev)
	return v, err
}

// fixInput returns the advice for the author about an input that decodeInput cannot read.
func (c *Command) fixInput(ev sharding.Event) string {
	if !c.Stored {
		return "add Stored() to command " + c.Input.name
	}
	return c.Input.fix(ev)
}

// CheckStored returns an error unless a type reads a stored input for one of its commands: the input of a
// reminder of the entity, or one that another entity has sent to it. The error is a [*StoredError].
func CheckStored(d Definition, of sharding.Entity, in *sharding.Input) (err error) {
	what := "input of " + in.Command
	inst := &Instance{typ: d.defined(), id: of.ID}
	c := inst.typ.commands[in.Command]
	if c == nil {
		return inst.unreadable(what, errors.New("this program has no such command"), fixNoCommand(in.Command, ", with Stored"))
	}
	defer inst.recovered("a step of "+in.Command, &err)
	ev := eventOf(in)
	_, err = c.decodeInput(ev)
	return inst.unreadable(what, err, c.fixInput(ev))
}

// CheckTakesAnswers returns an error unless the type has a command with the name, or with that
// alias, that takes the answers to what the entity has sent. The error is a [*StoredError].
func CheckTakesAnswers(d Definition, of sharding.Entity, command string) error {
	t := d.defined()
	if c := t.commands[command]; c != nil && c.Answers {
		return nil
	}
	return (&Instance{typ: t, id: of.ID}).noAnswers(command)
}

// noAnswers is the error about an answer that is for a command which takes none.
func (i *Instance) noAnswers(command string) error {
	return i.unreadable("answer for "+command, errors.New("this program has no such command, or the command takes no answers"), fixNoCommand(command, ""))
}

func fixNoCommand(name, how string) string {
	return fmt.Sprintf("if a later version of the program has stored it, run that version; otherwise bind %s again%s, or give the command that it has become an Alias(%q)", name, how, name)
}
