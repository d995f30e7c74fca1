package instance

import (
	"cmp"
	"errors"
	"fmt"
	"reflect" // pure: of types
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
	"github.com/roost-cluster/roost/libs/turn"
)

// Type is an entity type as a runtime hosts it. It must not be changed once [Type.Check] was called.
type Type struct {
	Name        string
	Shards      uint32
	Rule        sharding.ShardRule
	Volatile    bool
	KeepOnMoves bool
	Remember    bool
	Passivation passivation.Strategy
	// SnapshotEvery is the number of events between two snapshots; 0: none are taken.
	SnapshotEvery int
	// Trims is true if only the newest KeepEvents records keep their events.
	Trims      bool
	KeepEvents int
	// NewContext returns memory for the context of a turn or hook.
	NewContext func() Context
	// OnStart and OnStop are the author's hooks; nil: there is none.
	OnStart func(state any, c Context) error
	OnStop  func(state any, c Context, why turn.StopReason)

	create func(id string) any
	// commands and events are by name, aliases included; byType by Go type.
	commands map[string]*Command
	events   map[string]*event
	byType   map[reflect.Type]*event
	state    stateForm
	errs     []error
}

// Definition is implemented by structs that embed [Defined]: they have a [Type].
type Definition interface{ defined() *Type }

// Defined makes the struct that embeds it a [Definition].
type Defined struct{ typ *Type }

// Define returns the Defined of a type.
func Define(t *Type) Defined { return Defined{t} }

func (d Defined) defined() *Type { return d.typ }

// TypeOf returns the type of a definition.
func TypeOf(d Definition) *Type { return d.defined() }

// event is a kind of events that a type stores.
type event struct {
	*Codec
	apply func(state, event any)
}

// Command is a command of an entity type: how it is called and how its inputs are stored, and, when it is
// bound to a method, how it runs.
type Command struct {
	Type  string
	Desc  sharding.CommandDesc
	Input *Codec
	// Stored is true if inputs may be stored, Answers if the command takes answers to sends.
	Stored, Answers bool
	// Options are the options of sends of the command; Timeout also bounds its turns that no caller waits
	// for.
	Options sharding.SendOptions
	// Run calls the method and encodes the reply. A [BadInput] is an error about the input; any other is the
	// handler's.
	Run func(state any, c Context, env *sharding.Envelope) (payload []byte, enc sharding.Encoding, err error)
	// Check only decodes. The value is nil if nothing was to be decoded.
	Check func(env *sharding.Envelope) (any, error)
}

// BadInput is the error of a command whose input cannot be used.
type BadInput struct{ Err error }

func (b *BadInput) Error() string { return b.Err.Error() }

func (b *BadInput) Unwrap() error { return b.Err }

// NewType returns a type with the defaults. create returns the empty state, a pointer to a value of Go type
// state.
func NewType(name string, state reflect.Type, create func(id string) any) *Type {
	return &Type{
		Name: name, Shards: sharding.DefaultShards, Passivation: passivation.Idle(passivation.DefaultIdle), create: create,
		commands: map[string]*Command{}, events: map[string]*event{}, byType: map[reflect.Type]*event{},
		state: newStateForm(state),
	}
}

// AddCommand adds a command that is bound to a method. [Type.Check] reports its mistakes.
func (t *Type) AddCommand(c *Command) {
	if err := t.checkCommand(c); err != nil {
		t.Complain(fmt.Errorf("command %s %w", c.Desc.Name, err))
	}
	if err := c.Options.Check(); err != nil {
		t.Complain(fmt.Errorf("command %s: %w", c.Desc.Name, err))
	}
	if c.Stored {
		if err := c.Input.check(); err != nil {
			t.Complain(err)
		}
	}
	c.Desc.Input = fingerprint(shapeOf(c.Input.typ))
	for _, name := range c.Input.names() {
		if t.commands[name] != nil {
			t.Complain(fmt.Errorf("command %s is bound twice", name))
		}
		t.errs = append(t.errs, sharding.CheckCommand("command of entity type "+t.Name, name))
		t.commands[name] = c
	}
}

// checkCommand returns the error in the definition of a command of the type.
func (t *Type) checkCommand(c *Command) error {
	versions := c.Input.Version != 1 || c.Input.ReadableBy != 0 || len(c.Input.Steps) > 0
	switch {
	case c.Type != t.Name:
		return fmt.Errorf("belongs to type %s", c.Type)
	case c.Answers && c.Desc.ReadOnly:
		return errors.New("takes answers to sends, so it cannot be read-only: the send ends when it is stored that the answer was taken")
	case c.Answers && t.Volatile:
		return errors.New("takes answers to sends, and a volatile type cannot send")
	case c.Answers && (c.Stored || versions):
		return errors.New("takes answers to sends, which have no version and are read as replies are: leave out Stored, V and ReadableBy")
	case !c.Stored && (c.Options.RetryMax != 0 || c.Options.MaxAge != 0):
		return errors.New("has Retry or MaxAge, which are for sends: add Stored()")
	case versions && !c.Stored:
		return errors.New("has versions of its input, which are for inputs that are stored: add Stored()")
	}
	return nil
}

// AddEvent adds a kind of events, with its reducer. [Type.Check] reports its mistakes.
func (t *Type) AddEvent(c *Codec, apply func(state, event any)) {
	if err := c.check(); err != nil {
		t.Complain(err)
	}
	e := &event{c, apply}
	if t.byType[c.typ] != nil {
		t.Complain(fmt.Errorf("events of type %s are declared twice", c.typ))
	}
	t.byType[c.typ] = e
	for _, name := range c.names() {
		if t.events[name] != nil {
			t.Complain(fmt.Errorf("event %q is declared twice", name))
		}
		t.events[name] = e
	}
}

// SetSnapshots sets the version of the snapshots, and the steps that read older ones.
func (t *Type) SetSnapshots(version int, steps []Step) {
	t.state.version, t.state.steps = version, slices.Concat(t.state.steps, steps)
}

// Complain records a mistake in the definition, for [Type.Check].
func (t *Type) Complain(err error) {
	t.errs = append(t.errs, fmt.Errorf("entity type %s: %w", t.Name, err))
}

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// Describe returns the type as the execution core needs it.
func Describe(of Definition) turn.Type {
	t := of.defined()
	desc := turn.Type{Passivation: t.Passivation, SnapshotEvery: t.SnapshotEvery, KeepEvents: t.KeepEvents, KeepOnMoves: t.KeepOnMoves, NoLoad: t.Volatile && t.OnStart == nil, Remember: t.Remember, Desc: sharding.TypeDesc{
		Type: sharding.EntityType(t.Name), Shards: t.Shards, Rule: t.Rule, Volatile: t.Volatile,
	}}
	for name, c := range t.commands { // sorted below
		command := c.Desc
		command.Name = name
		desc.Desc.Commands = append(desc.Desc.Commands, command)
		if c.Options.Timeout > 0 {
			if desc.Timeouts == nil {
				desc.Timeouts = map[string]time.Duration{}
			}
			desc.Timeouts[name] = c.Options.Timeout
		}
	}
	sorted.By(desc.Desc.Commands, func(a, b sharding.CommandDesc) int { return cmp.Compare(a.Name, b.Name) })
	desc.Desc.Writes, desc.Desc.Reads = t.forms()
	return desc
}

// Check returns an error that names every mistake in the definition.
func (t *Type) Check() error {
	errs := append(slices.Clone(t.errs), sharding.CheckEntityType("entity type", sharding.EntityType(t.Name)))
	complain := func(err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("entity type %s: %w", t.Name, err))
		}
	}
	if t.Shards == 0 || t.Shards > sharding.MaxShards {
		complain(fmt.Errorf("%d shards, must be 1 to %d", t.Shards, sharding.MaxShards))
	}
	if t.Rule != (sharding.ShardRule{}) {
		complain(t.Rule.Check())
	}
	if t.Remember && t.Volatile {
		complain(errors.New("a volatile type keeps nothing, so it cannot have Remember"))
	}
	complain(t.checkKeepEvents())
	complain(t.Passivation.Validate())
	if t.SnapshotEvery < 0 {
		complain(fmt.Errorf("SnapshotEvery is %d, must not be negative; 0 is never", t.SnapshotEvery))
	}
	complain(t.state.check())
	complain(t.checkKeepOnMoves())
	if len(t.commands) == 0 {
		complain(errors.New("has no commands"))
	}
	if t.Volatile && (len(t.events) > 0 || t.SnapshotEvery > 0) {
		complain(errors.New("a volatile type has no events and no snapshots"))
	}
	return errors.Join(errs...)
}

// checkKeepEvents returns an error if events of the type cannot be trimmed.
func (t *Type) checkKeepEvents() error {
	switch {
	case !t.Trims:
		return nil
	case t.Volatile:
		return errors.New("a volatile type stores no events, so it cannot have KeepEvents")
	case t.KeepEvents < 1:
		return fmt.Errorf("KeepEvents(%d), must be at least 1", t.KeepEvents)
	case t.SnapshotEvery == 0:
		return errors.New("KeepEvents needs snapshots, which take the place of the events: add SnapshotEvery")
	case t.SnapshotEvery > turn.MaxTrimmedEvery:
		return fmt.Errorf("SnapshotEvery is %d, at most %d with KeepEvents: a snapshot trims a bounded number of records", t.SnapshotEvery, turn.MaxTrimmedEvery)
	}
	return nil
}

// checkKeepOnMoves returns an error if the type cannot keep its state.
func (t *Type) checkKeepOnMoves() error {
	f := &t.state
	switch {
	case !t.KeepOnMoves:
		return nil
	case !t.Volatile:
		return errors.New("KeepOnMoves is for volatile types; this one has its state in the journal")
	case f.layout != nil && (f.typ.Kind() != reflect.Struct || exported(f.typ) == 0):
		return fmt.Errorf("KeepOnMoves, but %s has no exported field to keep: export some, or give it Snapshot and Restore", f.typ)
	}
	return nil
}

// exported counts the exported fields of a struct.
func exported(t reflect.Type) int {
	n := 0
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("json") != "-" && (f.IsExported() || f.Anonymous) {
			n++
		}
	}
	return n
}
