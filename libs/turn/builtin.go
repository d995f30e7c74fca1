package turn

import (
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
	sharding.DeleteCommand:       deleteTurn,
	sharding.ReminderDropCommand: reminderDropTurn,
	sharding.SendAgainCommand:    deadLetterTurn,
	sharding.SendDropCommand:     deadLetterTurn,
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

// deleteTurn deletes the entity, without asking the author's code.
func deleteTurn(m *Machine, e *entity, c *command) {
	done := TurnDone{Deleted: true, Reply: sharding.Reply{Outcome: sharding.Executed}}
	if e.staged == e.life {
		done = TurnDone{Reply: sharding.Reject(sharding.NotFound, "nothing is stored of the entity, or it was deleted before")}
	}
	m.builtinDone(e, c, done)
}

// reminderDropTurn removes a reminder. Nothing is changed if it does not stand.
func reminderDropTurn(m *Machine, e *entity, c *command) {
	var in sharding.ReminderDropInput
	done := TurnDone{Reply: sharding.Reply{Outcome: sharding.Executed}}
	if err := sharding.ReadBuiltin(c.env.Payload, &in); err != nil || in.Name == "" || len(in.Name) > sharding.MaxWakeNameLen {
		done.Reply = sharding.Reject(sharding.InvalidArgument, `the input of `+c.env.Command+` is the name of a reminder, such as {"name":"pay"}`+because(err))
	} else {
		done.Wakes = []sharding.Wake{{Kind: sharding.ReminderWake, Name: in.Name}}
	}
	m.builtinDone(e, c, done)
}

// deleteEntity makes the record that was staged last end the entity's life. The instance has the state of the
// life that has ended, so the incarnation ends too. When the record is durable, the entity is loaded again,
// and is empty. The commands that wait run then.
func (m *Machine) deleteEntity(e *entity) {
	// Invariant: when a life has ended, nothing of it returns: no state, no snapshot, no wake-up.
	// Guarded by: `turn.deleteEntity` stages the record of the delete. A load reads only the records after this record.
	// `journal.decideSnapshot`, `journal.WakeChanges`.
	// Mutants: delete-mark, delete-ends, delete-wakes, snapshot-of-the-dead, deleted-rows
	e.pending[len(e.pending)-1].Delete = true //mutant:skip delete-mark
	m.endIncarnation(e)                       //mutant:skip delete-ends
}

// because is the reason for a refusal, if there is one.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
