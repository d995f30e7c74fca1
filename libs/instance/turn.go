package instance

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
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Context is the context that handlers get: a struct that embeds [Held].
type Context interface{ held() *Turn }

// Held is the memory of a [Turn] in a [Context].
type Held struct{ turn Turn }

func (h *Held) held() *Turn { return &h.turn }

// Of returns the turn of a context.
func Of(c Context) *Turn { return c.held() }

// Turn is one turn of an entity, and the effects that its handler wants. It must not be used after the handler
// has returned.
type Turn struct {
	context  context.Context
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
func (t *Turn) change() *effects {
	if t.effects == nil {
		t.effects = &effects{}
	}
	return t.effects
}

// noEffects are the effects of turns that want nothing. It stays empty.
var noEffects effects

// wants returns the effects of the turn, not to be changed.
func (t *Turn) wants() *effects {
	if t.effects == nil {
		return &noEffects
	}
	return t.effects
}

// Context returns the context of the turn.
func (t *Turn) Context() context.Context { return t.context }

// Entity returns the address of the entity.
func (t *Turn) Entity() sharding.Entity { return t.inst.entity() }

// Now returns the time at which the turn began.
func (t *Turn) Now() time.Time { return t.now.Round(0).UTC() }

// Command returns the name of the running command.
func (t *Turn) Command() string { return t.command }

// Subject returns the authenticated sender of the command; empty: it has none.
func (t *Turn) Subject() string { return t.subject }

// Fresh reports whether nothing was stored in this life of the entity before the turn.
func (t *Turn) Fresh() bool { return t.fresh }

// Wakeup returns the due reminder or the answer that the command runs for; nil: it runs for a caller or a timer.
func (t *Turn) Wakeup() *turn.Wakeup { return t.wakeup }

// Log returns a logger with the attributes of the entity and the command.
func (t *Turn) Log() *slog.Logger {
	return slog.Default().With("entity.type", t.inst.typ.Name, "entity.id", t.inst.id, "command", t.command)
}

// Persist stages events and applies them at once: as they will be replayed, after encoding and decoding. If
// an event cannot be stored, none of this call is staged, and the turn is broken.
func (t *Turn) Persist(events []any) {
	if err := t.persist(events); err != nil {
		t.Break("persist", err)
	}
}

func (t *Turn) persist(events []any) error {
	typ := t.inst.typ
	switch wants := t.wants(); {
	case t.calls.ended():
		return ErrTurnOver
	case wants.broken != nil: // the state may lack what this event follows
		return wants.broken
	case typ.Volatile:
		return fmt.Errorf("%w: %s", ErrVolatile, typ.Name)
	case t.readOnly:
		return fmt.Errorf("%w: %s changes nothing", ErrReadOnly, t.command)
	case wants.deleted:
		return ErrDeleted
	}
	encoded, err := t.inst.Encode(events...)
	if err != nil {
		return err
	}
	live, own := events, false
	for i := range encoded {
		e := typ.byType[reflect.TypeOf(events[i])]
		if e.same(encoded[i]) {
			continue
		}
		if !own {
			live, own = slices.Clone(events), true
		}
		if live[i], err = e.decodeAs(encoded[i], false); err != nil {
			return fmt.Errorf("event %s cannot be read back from %.200q, so it could not be replayed: %w", encoded[i].Name, encoded[i].Payload, markOwn(err))
		}
	}
	e := t.change()
	e.staged = append(e.staged, encoded...)
	for i, ev := range live {
		t.apply(typ.byType[reflect.TypeOf(events[i])], ev)
	}
	return nil
}

// apply applies an event. If its reducer panics, the turn is broken before the handler can recover: what is staged must
// not become durable, because the entity could never be brought to life again.
func (t *Turn) apply(e *event, ev any) {
	took := false //mutant:true apply-broken
	defer func() {
		if took {
			return
		}
		if r := recover(); r != nil {
			wants := t.change()
			wants.broken = cmp.Or[error](wants.broken, &Panic{Value: "reducer of event " + e.name + ": " + foreign.Text(r), Stack: string(debug.Stack())})
			panic(r)
		}
	}()
	e.apply(t.inst.state, ev)
	took = true
}

// Break makes the turn fail: it cannot have the effect that what names. Once the handler has returned, only the
// log can report it.
func (t *Turn) Break(what string, err error) {
	if t.calls.ended() {
		t.Log().Error(what+" counts for nothing", "error", ErrTurnOver)
		return
	}
	e := t.change()
	e.broken = cmp.Or(e.broken, fmt.Errorf("%s: %w", what, err))
}

// over breaks the turn if its handler has returned, and reports whether it has.
func (t *Turn) over(what string) bool {
	if t.calls.ended() {
		t.Break(what, ErrTurnOver)
		return true
	}
	return false
}

// Passivate stops the entity as soon as it is idle.
func (t *Turn) Passivate() {
	if !t.over("passivate") {
		t.change().quit = true
	}
}

// Delete ends the life of the entity when the handler succeeds.
func (t *Turn) Delete() {
	switch {
	case t.over("delete"):
	case t.inst.typ.Volatile:
		t.Break("delete", misused("type %s is volatile and keeps nothing that could be deleted; use Passivate", t.inst.typ.Name))
	case t.readOnly:
		t.Break("delete", misused("%s changes nothing, so it cannot delete the entity", t.command))
	default:
		t.change().deleted = true
	}
}

// Forget declares that the entity need not be started again without a command.
func (t *Turn) Forget() {
	switch {
	case t.over("forget"):
	case !t.inst.typ.Remember:
		t.Break("forget", misused("entity type %s is not remembered; it has no Remember", t.inst.typ.Name))
	case t.readOnly:
		t.Break("forget", misused("%s changes nothing, so the entity cannot be forgotten", t.command))
	default:
		t.change().forgotten = true
	}
}
