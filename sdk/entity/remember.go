package entity

import "fmt"

// Remember restarts the entities of the type without a command: after a move, a crash
// or a cold start, their state is loaded and their start hook runs. An entity is remembered from
// the first command on that stores events, reminders or sends; one that is only read, or that
// only answers, is not. It stays remembered while it is passivated, until it calls [Ctx.Forget]
// or is deleted. Not for volatile types, which keep nothing.
//
// In a cluster that was upgraded, this needs an activated journal (roost journal upgrade --finalize):
// before that, commands that store something are refused.
func (t *Type[E]) Remember() *Type[E] { t.def.remember = true; return t }

// checkRemember returns an error if the type cannot be remembered.
func (d *definition) checkRemember() error {
	if d.remember && d.volatile {
		return fmt.Errorf("entity type %s: a volatile type keeps nothing, so it cannot have Remember", d.name)
	}
	return nil
}

// Forget declares that the entity need not be started again without a command, see [Type.Remember]. It
// becomes durable together with the events of the turn, and counts only if the handler succeeds. The entity
// stays alive until it is passivated. If a later command stores something, it is remembered again. In a
// read-only command, and if the type has no Remember, the turn fails.
func (c *Ctx) Forget() {
	switch {
	case c.calls.ended():
		c.breakTurn("forget", ErrTurnOver)
	case !c.inst.def.remember:
		c.breakTurn("forget", misused("entity type %s is not remembered; it has no Remember", c.inst.def.name))
	case c.readOnly:
		c.breakTurn("forget", misused("%s changes nothing, so the entity cannot be forgotten", c.command))
	default:
		c.change().forgotten = true
	}
}
