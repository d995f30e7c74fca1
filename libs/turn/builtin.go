package turn

import (
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Built-in commands are those that every journaled type has. They are delivered, kept in
// order, recorded and fenced like all others, but their turn is executed here and not by the
// author's handlers.

// builtin executes the turn of a built-in command, at once or when the journal has answered. It
// ends with Machine.builtinDone.
type builtin func(m *Machine, e *entity, c *command)

// builtins are the built-in commands by name, see [sharding.BuiltinPrefix].
var builtins = map[string]builtin{
	sharding.DeleteCommand:    deleteTurn,
	sharding.SendAgainCommand: deadLetterTurn,
	sharding.SendDropCommand:  deadLetterTurn,
}

// builtin returns the built-in command of that name. Volatile types have none.
func (ts *typeState) builtin(name string) (run builtin, desc sharding.CommandDesc, ok bool) {
	if ts.Desc.Volatile || !sharding.IsBuiltin(name) {
		return nil, desc, false
	}
	run, ok = builtins[name]
	return run, sharding.CommandDesc{Name: name}, ok
}

// builtinDone ends the running turn of a built-in command.
func (m *Machine) builtinDone(e *entity, c *command, done TurnDone) {
	done.Incarnation, done.Request = e.inc, c.runID
	m.turnDone(&done)
}

// deleteTurn deletes the entity, whatever its handlers would say.
func deleteTurn(m *Machine, e *entity, c *command) {
	done := TurnDone{Deleted: true, Reply: sharding.Reply{Outcome: sharding.OK}}
	if e.staged == e.life {
		done = TurnDone{Reply: sharding.Reject(sharding.NotFound, "nothing is stored of the entity, or it was deleted before")}
	}
	m.builtinDone(e, c, done)
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
