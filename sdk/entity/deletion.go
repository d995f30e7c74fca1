package entity

import "errors"

// ErrDeleted: the turn has deleted its entity, which can store nothing more in that turn.
var ErrDeleted = errors.New("the turn has deleted the entity")

// Delete ends the life of the entity when the handler returns nil: its state is gone, and its
// reminders and timers with it. It counts only if the handler succeeds. The reply is sent, and
// what the turn has sent to other entities is delivered.
//
// A delete is a record like any other: it is durable when the reply leaves. After it, the entity is the
// empty one that create returns, and the next command runs on that. The instance ends with the turn; its
// stop hook is not called. The stored data is removed later, when the keys of its commands are old enough
// to be forgotten: until then a repeat of a command of the life that has ended gets its first reply.
//
// After Delete nothing can be persisted or reminded in the turn. A read-only command cannot delete, and a
// volatile entity, which stores nothing, has no need to: it has [Ctx.Passivate].
func (c *Ctx) Delete() {
	switch {
	case c.calls.ended():
		c.breakTurn("delete", ErrTurnOver)
	case c.inst.def.volatile:
		c.breakTurn("delete", misused("type %s is volatile and keeps nothing that could be deleted; use Passivate", c.inst.def.name))
	case c.readOnly:
		c.breakTurn("delete", misused("%s changes nothing, so it cannot delete the entity", c.command))
	default:
		c.change().deleted = true
	}
}

// Fresh reports whether nothing was stored in this life of the entity before the running turn:
// it has never stored anything, or nothing since it was deleted. The reply of a keyed command
// counts as stored, even if the command has persisted no event. It is false in hooks and for
// volatile types.
func (c *Ctx) Fresh() bool { return c.fresh }
