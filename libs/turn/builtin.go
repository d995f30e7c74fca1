package turn

import (
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Built-in commands are those that every journaled type has. They are delivered, kept in
// order, recorded and fenced like all others, but their turn is executed here and not by the
// author's handlers.

// builtin executes the turn of a built-in command. Incarnation and Request of the result are
// set by the caller.
type builtin func(e *entity, c *command) TurnDone

// builtins are the built-in commands by name, see [sharding.BuiltinPrefix].
var builtins = map[string]builtin{
	sharding.DeleteCommand: deleteTurn,
}

// builtin returns the built-in command of that name. Volatile types have none.
func (ts *typeState) builtin(name string) (run builtin, desc sharding.CommandDesc, ok bool) {
	if ts.Desc.Volatile || !sharding.IsBuiltin(name) {
		return nil, desc, false
	}
	run, ok = builtins[name]
	return run, sharding.CommandDesc{Name: name}, ok
}

// runBuiltin executes the turn that has just begun.
func (m *Machine) runBuiltin(e *entity, c *command) {
	done := c.builtin(e, c)
	done.Incarnation, done.Request = e.inc, c.runID
	m.turnDone(&done)
}

// deleteTurn deletes the entity, whatever its handlers would say.
func deleteTurn(e *entity, _ *command) TurnDone {
	if e.fresh {
		return TurnDone{Reply: sharding.Reject(sharding.NotFound, "nothing is stored of the entity, or it was deleted before")}
	}
	return TurnDone{Deleted: true, Reply: sharding.Reply{Outcome: sharding.OK}}
}

// deleteEntity makes the record that was staged last end the entity's life. The instance shows
// the life that has ended, so that the incarnation ends too: what waits behind it runs on the
// empty entity, which is loaded when the record is durable.
func (m *Machine) deleteEntity(e *entity) {
	if !mutant.On("delete-mark") {
		e.pending[len(e.pending)-1].Delete = true
	}
	if !mutant.On("delete-ends") {
		m.endIncarnation(e)
	}
}
