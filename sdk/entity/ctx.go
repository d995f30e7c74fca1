package entity

import (
	"cmp"
	"context" // pure: handed on
	"fmt"
	"log/slog"      // pure: handed on
	"reflect"       // pure: of types
	"runtime/debug" // pure: the stack of a panic, for the log
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/foreign"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Ctx is the context of one turn of an entity. It is a context.Context that ends at
// the command's deadline, or when the turn's result is no longer wanted. It must not
// be used after the handler has returned.
type Ctx struct {
	context.Context
	inst     *Instance
	now      time.Time
	readOnly bool
	command  string
	subject  string
	fresh    bool // see Fresh
	calls    calls
	effects  *effects     // what the turn wants; nil: nothing
	wakeup   *turn.Wakeup // whose command runs; nil: none
	decoded  Decoded      // the input of the command, if it was decoded before
	asker    Asker        // nil: the turn cannot ask anything
}

// effects holds the effects that a turn wants besides its reply. Many turns want nothing, so it is made by
// the first that does.
type effects struct {
	staged  []sharding.Event
	timers  []turn.Timer
	wakes   []sharding.Wake
	sends   []sharding.Send
	quit    bool
	deleted bool // see Delete
	// forgotten: the entity need not be remembered any more.
	forgotten bool
	broken    error
}

// change returns the effects of the turn, to be added to.
func (c *Ctx) change() *effects {
	if c.effects == nil {
		c.effects = &effects{}
	}
	return c.effects
}

// noEffects are the effects of turns that want nothing. It stays empty.
var noEffects effects

// wants returns the effects of the turn, not to be changed.
func (c *Ctx) wants() *effects {
	if c.effects == nil {
		return &noEffects
	}
	return c.effects
}

// Entity returns the address of the entity.
func (c *Ctx) Entity() sharding.Entity { return c.inst.entity() }

// ID returns the id of the entity.
func (c *Ctx) ID() string { return string(c.inst.id) }

// Now returns the time at which the turn began, by the clock of the machine on which the region runs, in
// UTC, so that an event that holds it is replayed unchanged. It may go back when the entity moves to
// another machine, and reminders are due by another clock: see [Handle.RemindAfter]. In package entitytest
// it is the kit's virtual time.
func (c *Ctx) Now() time.Time { return c.now.Round(0).UTC() }

// Command returns the name of the running command.
func (c *Ctx) Command() string { return c.command }

// Subject returns the sender of the command: the principal that a gateway has authenticated, such as
// "jwt:https://login.example#anna" or "key:billing". It is empty if the sender was not authenticated. While
// the entity answers another entity that asks it, Subject is the same as in the other entity's command. It
// is empty for commands that entities send, for reminders and for timers: they have no sender outside.
func (c *Ctx) Subject() string { return c.subject }

// Log returns a logger with the attributes of the entity and the command.
func (c *Ctx) Log() *slog.Logger {
	return slog.Default().With("entity.type", c.inst.def.name, "entity.id", c.inst.id, "command", c.command)
}

// Persist stages events and applies them at once. They become durable together when the
// handler returns nil; its reply is held until then. If the handler returns an error or
// panics, the events are discarded and the entity is loaded again. That includes an error
// made by [Errorf], although it is the command's answer.
//
// Apply receives the event as it will be replayed, after encoding and decoding: a copy
// without unexported fields, and a time.Time without its monotonic clock.
//
// An error means that nothing was staged by this call: ErrReadOnly, ErrVolatile, ErrDeleted, ErrTurnOver,
// ErrUnknownEvent, or an event that cannot be encoded or decoded. Then the turn fails, and so it does if
// Apply panics, even if the handler ignores the error or recovers: otherwise the caller would receive a
// success that is not stored, or an event would be stored that no replay can apply.
func (c *Ctx) Persist(events ...any) error {
	if c.calls.ended() {
		return ErrTurnOver
	}
	err := c.persist(events)
	if err != nil {
		e := c.change()
		e.broken = cmp.Or(e.broken, fmt.Errorf("persist: %w", err))
	}
	return err
}

func (c *Ctx) persist(events []any) error {
	if c.inst.def.volatile {
		return fmt.Errorf("%w: %s", ErrVolatile, c.inst.def.name)
	}
	if c.readOnly {
		return fmt.Errorf("%w: %s changes nothing", ErrReadOnly, c.command)
	}
	if c.wants().deleted {
		return ErrDeleted
	}
	encoded, err := c.inst.Encode(events...)
	if err != nil {
		return err
	}
	live, own := events, false
	for i := range encoded {
		t := c.inst.def.byType[reflect.TypeOf(events[i])]
		if t.same(encoded[i]) {
			continue
		}
		if !own {
			live, own = slices.Clone(events), true
		}
		if live[i], err = t.decodeAs(encoded[i], false); err != nil {
			return fmt.Errorf("event %s cannot be read back from %.200q, so it could not be replayed: %w", encoded[i].Name, encoded[i].Payload, markOwn(err))
		}
	}
	e := c.change()
	e.staged = append(e.staged, encoded...)
	for i, ev := range live {
		c.apply(encoded[i].Name, ev)
	}
	return nil
}

// apply applies an event. If Apply panics, the turn is broken before the handler can recover: what is staged must not
// become durable, because the entity could never be brought to life again.
func (c *Ctx) apply(name string, ev any) {
	took := mutant.On("apply-broken")
	defer func() {
		if took {
			return
		}
		if r := recover(); r != nil {
			e := c.change()
			e.broken = cmp.Or[error](e.broken, &Panic{Value: "Apply of event " + name + ": " + foreign.Text(r), Stack: string(debug.Stack())})
			panic(r)
		}
	}()
	c.inst.state.(Sourced).Apply(ev)
	took = true
}

// breakTurn makes the turn fail because of something that has no result of its own. Once the handler has
// returned, only the log can report it.
func (c *Ctx) breakTurn(what string, err error) {
	if c.calls.ended() {
		c.Log().Error(what+" counts for nothing", "error", ErrTurnOver)
		return
	}
	e := c.change()
	e.broken = cmp.Or(e.broken, fmt.Errorf("%s: %w", what, err))
}

// Passivate stops the entity as soon as it is idle. The next command activates it
// again.
func (c *Ctx) Passivate() {
	if c.calls.ended() {
		c.breakTurn("passivate", ErrTurnOver)
		return
	}
	c.change().quit = true
}

// CancelTimer cancels the timer with the given name, if there is one.
func (c *Ctx) CancelTimer(name string) {
	if c.calls.ended() {
		c.breakTurn(fmt.Sprintf("cancel timer %q", name), ErrTurnOver)
		return
	}
	e := c.change()
	e.timers = append(e.timers, turn.Timer{Name: name})
}
