package entity

import (
	"cmp"
	"errors"
	"fmt"
	"reflect" // pure: of types, and of values that are no maps
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Sourced is implemented by event-sourced entities: Apply is the only place
// where state changes, live and in replay. It must not fail, and must depend on
// nothing but the state and the event.
type Sourced interface{ Apply(event any) }

// Starter is implemented by entities that act when they are activated, after their
// state is loaded. The hook may set timers ([Handle.After], [Handle.Every]), whose commands do
// the rest: it cannot persist, remind, send, ask or delete. An error fails the activation. The context ends when the load has
// taken too long (30 s); a hook that keeps running is not waited for, but keeps its
// goroutine. While region.entity_loads (4) hooks of one entity have not returned,
// commands for it are refused as unavailable.
type Starter interface{ OnStart(ctx *Ctx) error }

// Stopper is implemented by entities that act before they are passivated or handed
// off. It is not called when the process dies.
type Stopper interface {
	OnStop(ctx *Ctx, why turn.StopReason)
}

// Sized is implemented by entities that know about how much memory they take, in bytes; 0 is not known.
// Size is called when the entity has been loaded, and after every turn that succeeds, so it must be quick.
// A region with little memory then need not wait for the next garbage collection to see that entities have
// become large.
type Sized interface{ Size() int }

// Snapshotter is implemented by entities that encode their snapshots themselves.
// Otherwise a snapshot is the entity's exported fields as JSON.
type Snapshotter interface {
	Snapshot() ([]byte, error)
	Restore([]byte) error
}

// Definition is an entity type as a region hosts it; made by [Define] and
// [DefineVolatile].
type Definition interface{ definition() *definition }

// Type is an entity type under construction. Its methods must not be called once the
// type is in use.
type Type[E any] struct{ def *definition }

func (t *Type[E]) definition() *definition { return t.def }

type definition struct {
	name        string
	shards      uint32
	rule        sharding.ShardRule
	volatile    bool
	starts      bool // it is a Starter
	keep        bool // its state, on moves
	remember    bool
	passivation passivation.Strategy
	snapshot    int
	trims       bool // KeepEvents was called
	keepEvents  int
	create      func(id string) any
	commands    map[string]*binding
	// commands and events are by name, aliases included; byType by Go type.
	events map[string]*EventType
	byType map[reflect.Type]*EventType
	state  stateForm
	errs   []error
}

// binding is a command bound to a method.
type binding struct {
	typ   string
	desc  sharding.CommandDesc
	input *EventType
	// stored is true if inputs may be stored, answers if the command takes answers to sends.
	stored, answers bool
	options         sharding.SendOptions
	// run decodes the input, calls the method and encodes the reply. The error is the
	// handler's; with bad it is about the input.
	run func(state any, ctx *Ctx, env *sharding.Envelope) (payload []byte, enc sharding.Encoding, bad bool, err error)
	// check only decodes. The value is nil if nothing was to be decoded.
	check func(env *sharding.Envelope) (any, error)
}

// Binding connects a command with a method of E.
type Binding[E any] struct{ b *binding }

// On binds a command to a method.
func On[E, In, Out any](h *Handle[In, Out], method func(*E, *Ctx, In) (Out, error)) Binding[E] {
	check := func(env *sharding.Envelope) (any, error) {
		if takesAnswers[In]() {
			return nil, errAnswerOnly
		}
		if env.Version != 0 { // it was stored, perhaps by another version of the program
			return nil, nil
		}
		return decode[In](env.Payload, env.Encoding, h.input.layout)
	}
	desc := h.desc
	desc.Input = fingerprint(shapeOf(h.input.typ))
	return Binding[E]{&binding{typ: h.typ, desc: desc, input: h.input, stored: h.stored, answers: takesAnswers[In](), options: h.options, check: check, run: func(state any, ctx *Ctx, env *sharding.Envelope) ([]byte, sharding.Encoding, bool, error) {
		in, err := inputOf(h, ctx, env)
		if err != nil {
			return nil, 0, true, err
		}
		out, err := method(state.(*E), ctx, in)
		if err != nil {
			return nil, 0, false, err
		}
		payload, enc, err := encode(out, env.Encoding)
		if err != nil {
			return nil, 0, false, fmt.Errorf("the reply cannot be encoded: %w", err)
		}
		if len(payload) > sharding.MaxPayload { // the reply could not be delivered
			return nil, 0, false, fmt.Errorf("the reply has %d bytes, at most %d are allowed", len(payload), sharding.MaxPayload)
		}
		return payload, enc, false, nil
	}}}
}

// Define defines an event-sourced type. create returns the empty entity with an id; it
// must not depend on the process it runs in. Mistakes (two commands with one name, a
// command of another type) are reported by [Describe].
func Define[E any, P interface {
	*E
	Sourced
}](name string, create func(id string) *E, on ...Binding[E]) *Type[E] {
	return define(name, false, create, on)
}

// DefineVolatile defines a type that has its state in memory only: best effort, lost when
// the entity is passivated or its region fails. It is lost when the entity moves, too, unless
// the type has [Type.KeepOnMoves].
func DefineVolatile[E any](name string, create func(id string) *E, on ...Binding[E]) *Type[E] {
	return define(name, true, create, on)
}

func define[E any](name string, volatile bool, create func(id string) *E, on []Binding[E]) *Type[E] {
	_, starts := any((*E)(nil)).(Starter)
	d := &definition{
		name: name, volatile: volatile, starts: starts, shards: sharding.DefaultShards, passivation: passivation.Idle(passivation.DefaultIdle),
		create:   func(id string) any { return create(id) },
		commands: map[string]*binding{}, events: map[string]*EventType{}, byType: map[reflect.Type]*EventType{},
		state: newStateForm(reflect.TypeFor[E]()),
	}
	for _, o := range on {
		d.addCommand(o.b)
	}
	return &Type[E]{d}
}

func (d *definition) addCommand(b *binding) {
	if err := d.checkBinding(b); err != nil {
		d.complain(fmt.Errorf("command %s %w", b.desc.Name, err))
	}
	if err := b.options.Check(); err != nil {
		d.complain(fmt.Errorf("command %s: %w", b.desc.Name, err))
	}
	if b.stored {
		if err := b.input.check(); err != nil {
			d.complain(err)
		}
	}
	for _, name := range b.input.names() {
		if d.commands[name] != nil {
			d.complain(fmt.Errorf("command %s is bound twice", name))
		}
		d.errs = append(d.errs, sharding.CheckCommand("command of entity type "+d.name, name))
		d.commands[name] = b
	}
}

// checkBinding returns the error in the definition of a command of the type.
func (d *definition) checkBinding(b *binding) error {
	versions := b.input.version != 1 || b.input.readableBy != 0 || len(b.input.steps) > 0
	switch {
	case b.typ != d.name:
		return fmt.Errorf("belongs to type %s", b.typ)
	case b.answers && b.desc.ReadOnly:
		return errors.New("takes answers to sends, so it cannot be read-only: the send ends when it is stored that the answer was taken")
	case b.answers && d.volatile:
		return errors.New("takes answers to sends, and a volatile type cannot send")
	case b.answers && (b.stored || versions):
		return errors.New("takes answers to sends, which have no version and are read as replies are: leave out Stored, V and ReadableBy")
	case !b.stored && (b.options.RetryMax != 0 || b.options.MaxAge != 0):
		return errors.New("has Retry or MaxAge, which are for sends: add Stored()")
	case versions && !b.stored:
		return errors.New("has versions of its input, which are for inputs that are stored: add Stored()")
	}
	return nil
}

// Events declares the events of the type: each by [Event], or by a plain value, which is
// stored under the name of its Go type as version 1.
func (t *Type[E]) Events(events ...any) *Type[E] {
	for _, ev := range events {
		e, ok := ev.(*EventType)
		if !ok {
			typ := reflect.TypeOf(ev)
			if typ == nil {
				t.def.complain(errors.New("event nil has no type"))
				continue
			}
			e = newEventType(sharding.FormOfEvent, typ, typeName(typ))
		}
		t.def.addEvent(e)
	}
	return t
}

func (d *definition) addEvent(e *EventType) {
	if err := e.check(); err != nil {
		d.complain(err)
	}
	if d.byType[e.typ] != nil {
		d.complain(fmt.Errorf("events of type %s are declared twice", e.typ))
	}
	d.byType[e.typ] = e
	for _, name := range e.names() {
		if d.events[name] != nil {
			d.complain(fmt.Errorf("event %q is declared twice", name))
		}
		d.events[name] = e
	}
}

func (d *definition) complain(err error) {
	d.errs = append(d.errs, fmt.Errorf("entity type %s: %w", d.name, err))
}

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// Shards sets the number of shards of the type. It is fixed forever with the
// type's first use. Default 1024.
func (t *Type[E]) Shards(n uint32) *Type[E] { t.def.shards = n; return t }

// Passivate sets which entities are stopped to free memory, such as passivation.LRU(10_000):
// the strategy, and how many may be alive in one region. The region's configuration
// (region.passivation) can say otherwise. Default: those that have been idle for 2 minutes.
// No command gets lost: the next one loads the entity again. An entity with a pending timer
// is neither idle nor counted. A volatile entity loses its state.
func (t *Type[E]) Passivate(s passivation.Strategy) *Type[E] { t.def.passivation = s; return t }

// PassivateAfter sets how long an entity may be idle before it is stopped to free
// memory; 0: never. It is short for Passivate(passivation.Idle(d)).
func (t *Type[E]) PassivateAfter(d time.Duration) *Type[E] { return t.Passivate(passivation.Idle(d)) }

// SnapshotEvery takes a snapshot after so many events (a keyed command without
// events counts as one, since it is stored too) or 8 MiB of them, so that loading
// stays fast: the entity's exported fields as JSON, or what its Snapshot says.
// Default 0: never. See SnapshotV for what happens when those fields change. No snapshot
// is cut while fields that are not exported differ from what create has set.
func (t *Type[E]) SnapshotEvery(events int) *Type[E] { t.def.snapshot = events; return t }

// Describe returns the type as the execution core needs it. An error names every
// mistake in the definition.
func Describe(t Definition) (turn.Type, error) {
	d := t.definition()
	desc := turn.Type{Passivation: d.passivation, SnapshotEvery: d.snapshot, KeepEvents: d.keepEvents, KeepOnMoves: d.keep, NoLoad: d.volatile && !d.starts, Remember: d.remember, Desc: sharding.TypeDesc{
		Type: sharding.EntityType(d.name), Shards: d.shards, Rule: d.rule, Volatile: d.volatile,
	}}
	for name, b := range d.commands { // sorted below
		command := b.desc
		command.Name = name
		desc.Desc.Commands = append(desc.Desc.Commands, command)
		if b.options.Timeout > 0 {
			if desc.Timeouts == nil {
				desc.Timeouts = map[string]time.Duration{}
			}
			desc.Timeouts[name] = b.options.Timeout
		}
	}
	slices.SortFunc(desc.Desc.Commands, func(a, b sharding.CommandDesc) int { return cmp.Compare(a.Name, b.Name) })
	desc.Desc.Writes, desc.Desc.Reads = d.forms()
	errs := append(slices.Clone(d.errs), sharding.CheckEntityType("entity type", desc.Desc.Type))
	if d.shards == 0 || d.shards > sharding.MaxShards {
		errs = append(errs, fmt.Errorf("entity type %s: %d shards, must be 1 to %d", d.name, d.shards, sharding.MaxShards))
	}
	if err := d.checkRemember(); err != nil {
		errs = append(errs, err)
	}
	if err := d.checkKeepEvents(); err != nil {
		errs = append(errs, err)
	}
	if err := d.passivation.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("entity type %s: %w", d.name, err))
	}
	if d.snapshot < 0 {
		errs = append(errs, fmt.Errorf("entity type %s: SnapshotEvery is %d, must not be negative; 0 is never", d.name, d.snapshot))
	}
	if err := d.state.check(); err != nil {
		errs = append(errs, fmt.Errorf("entity type %s: %w", d.name, err))
	}
	if err := d.checkKeep(); err != nil {
		errs = append(errs, fmt.Errorf("entity type %s: %w", d.name, err))
	}
	if len(d.commands) == 0 {
		errs = append(errs, fmt.Errorf("entity type %s: has no commands", d.name))
	}
	if d.volatile && (len(d.events) > 0 || d.snapshot > 0) {
		errs = append(errs, fmt.Errorf("entity type %s: a volatile type has no events and no snapshots", d.name))
	}
	return desc, errors.Join(errs...)
}
