package instance

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// MaxSends bounds the commands that a turn may send: as many as a record may have.
const MaxSends = 1000

// Send sends a command to another entity. replyTo takes the answer; nil: none does.
func (t *Turn) Send(c *Command, to sharding.Entity, in any, replyTo *Command) {
	send := sharding.Send{To: to, Options: c.Options}
	err := t.maySend(to)
	if err == nil {
		if name := sharding.CheckType("command", c.Desc.Name); name != nil {
			err = misused("no type has such a command: %w", name)
		}
	}
	if err == nil && c.Desc.ReadOnly {
		err = misused("%s only reads, so that nothing would come of it; use Ask", c.Desc.Name)
	}
	if err == nil && c.Options.Check() != nil {
		err = &misuse{c.Options.Check()}
	}
	if err == nil {
		send.Input, err = c.store(in)
	}
	if err == nil && replyTo != nil {
		if !t.inst.typ.has(replyTo) {
			err = misused("the answer is for command %s.%s, which is not one of type %s; the sender itself must take it", replyTo.Type, replyTo.Desc.Name, t.inst.typ.Name)
		}
		send.ReplyTo = replyTo.Desc.Name
	}
	switch {
	case err != nil:
		t.Break(fmt.Sprintf("send %s to %s", c.Desc.Name, to), err)
	case len(t.wants().sends) <= MaxSends: // one more than allowed: then the turn is refused
		e := t.change()
		e.sends = append(e.sends, send)
	}
}

// maySend returns an error unless the running turn may send commands to the entity.
func (t *Turn) maySend(to sharding.Entity) error {
	switch err := to.Check(); {
	case t.calls.ended():
		return ErrTurnOver
	case t.inst.typ.Volatile:
		return misused("type %s is volatile and keeps nothing; use Ask", t.inst.typ.Name)
	case t.readOnly:
		return misused("%s changes nothing, so it cannot send", t.command)
	case err != nil:
		return misused("the target has no name: %w", err)
	}
	return nil
}
