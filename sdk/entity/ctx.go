package entity

import (
	"context"  // pure: handed on
	"log/slog" // pure: handed on
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
)

// held hides the runtime's part of a Ctx from authors.
//
//lint:ignore U1000 it makes *Ctx an instance.Context
type held = instance.Held

// Ctx is the context of one turn of an entity. It is a context.Context that ends at
// the command's deadline, or when the turn's result is no longer wanted. It must not
// be used after the handler has returned.
//
// Effects (Persist, Delete, Forget, Passivate, and Send, Remind, After … of a [Handle]) count together when the
// handler returns nil, or not at all. They return no error. One that is impossible, for example an event
// that cannot be encoded, breaks the turn: whatever the handler does then, its command fails and has no
// effect, and the reason is the error of the command or in the region's log. A handler could do nothing
// else with such an error; and one that ignored it would report a success that is not stored.
// Persist stages nothing any more in a broken turn, and Ask refuses commands that change another entity.
type Ctx struct {
	context.Context
	//lint:ignore U1000 it makes *Ctx an instance.Context
	held
}

// enter returns the Ctx that a runtime has prepared.
func enter(c instance.Context) *Ctx {
	ctx := c.(*Ctx)
	ctx.Context = instance.Of(c).Context()
	return ctx
}

// ID returns the id of the entity.
func (c *Ctx) ID() string { return string(instance.Of(c).Entity().ID) }

// Type returns the name of the entity's type.
func (c *Ctx) Type() string { return string(instance.Of(c).Entity().Type) }

// Now returns the time at which the turn began, by the clock of the machine on which the region runs, in
// UTC, so that an event that holds it is replayed unchanged. It may go back when the entity moves to
// another machine, and reminders are due by another clock: see [Handle.RemindAfter]. In package entitytest
// it is the kit's virtual time.
func (c *Ctx) Now() time.Time { return instance.Of(c).Now() }

// Command returns the name of the running command.
func (c *Ctx) Command() string { return instance.Of(c).Command() }

// Subject returns the sender of the command: the principal that a gateway has authenticated, such as
// "jwt:https://login.example#anna" or "key:billing". It is empty if the sender was not authenticated. While
// the entity answers another entity that asks it, Subject is the same as in the other entity's command. It
// is empty for commands that entities send, for reminders and for timers: they have no sender outside.
func (c *Ctx) Subject() string { return instance.Of(c).Subject() }

// Fresh reports whether nothing was stored in this life of the entity before the running turn:
// it has never stored anything, or nothing since it was deleted. The reply of a keyed command
// counts as stored, even if the command has persisted no event. It is false in hooks and for
// volatile types.
func (c *Ctx) Fresh() bool { return instance.Of(c).Fresh() }

// Log returns a logger with the attributes of the entity and the command.
func (c *Ctx) Log() *slog.Logger { return instance.Of(c).Log() }

// Persist stages events and applies them to the state at once, by the reducers of [Event]. They become durable
// together when the handler returns nil; its reply is held until then. If the handler returns an error or
// panics, the events are discarded and the entity is loaded again. That includes an error
// made by [Errorf], although it is the command's answer.
//
// If an event cannot be stored, none of the call is staged, and the turn is broken; and so it is if a reducer
// panics, even if the handler recovers: otherwise an event would be stored that no replay can apply. Read-only
// commands and volatile types cannot persist, and a turn cannot after [Ctx.Delete].
func (c *Ctx) Persist(events ...any) { instance.Of(c).Persist(events) }

// Delete ends the life of the entity when the handler returns nil: its state is gone, and its
// reminders and timers with it. It counts only if the handler succeeds. The reply is sent, and
// what the turn has sent to other entities is delivered.
//
// A delete is a record like any other: it is durable when the reply leaves. After it, the entity is the
// empty one that create returns, and the next command runs on that. The instance ends with the turn; its
// stop hook is not called. The stored data is removed later, when the keys of its commands are old enough
// to expire: until then a repeat of a command of the life that has ended gets its first reply.
//
// After Delete nothing can be persisted or reminded in the turn. A read-only command cannot delete, and a
// volatile entity, which stores nothing, has no need to: it has [Ctx.Passivate].
func (c *Ctx) Delete() { instance.Of(c).Delete() }

// Forget declares that the entity need not be started again without a command, see [Remember]. It
// becomes durable together with the events of the turn, and counts only if the handler succeeds. The entity
// stays alive until it is passivated. If a later command stores something, it is remembered again. In a
// read-only command, and if the type has no Remember, the turn fails.
func (c *Ctx) Forget() { instance.Of(c).Forget() }

// Passivate stops the entity as soon as it is idle. The next command activates it
// again.
func (c *Ctx) Passivate() { instance.Of(c).Passivate() }

// CancelTimer cancels the timer with the given name, if there is one.
func (c *Ctx) CancelTimer(name string) { instance.Of(c).CancelTimer(name) }

// CancelReminder removes the reminder with the given name, if there is one. It counts only if
// the handler succeeds.
func (c *Ctx) CancelReminder(name string) { instance.Of(c).CancelReminder(name) }

// Reminder describes the reminder that a command runs for.
type Reminder struct {
	Name string
	// Due is the time at which it was due.
	Due time.Time
	// Missed is the number of times that a repeated reminder was due after Due and did not run, because the
	// entity could not be reached or the command failed.
	Missed int
}

// Reminder returns the reminder that the command runs for; not ok: it runs for a caller or a timer.
func (c *Ctx) Reminder() (r Reminder, ok bool) {
	w := instance.Of(c).Wakeup()
	if w == nil || w.Kind != sharding.ReminderWake {
		return r, false
	}
	return Reminder{Name: w.Name, Due: time.UnixMilli(w.Due).UTC(), Missed: int(w.Missed)}, true
}
