package entity

import (
	"fmt"
	"reflect" // pure: of types

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Event declares a kind of events: the name under which they are stored, their Go type T, and their reducer. The
// name must never change; the Go type may. [Ctx.Persist] stores events.
//
//	entity.Event("added", func(c *Counter, e Added) { c.N += e.Delta })
//
// Reducers are the only place where the state changes, live and in replay. A reducer must not fail, and must
// depend on nothing but the state and the event. It gets a copy of the event that was decoded from its stored
// form, also when the event is new: without unexported fields, and with times without a monotonic clock.
// An event that was stored once must stay declared.
func Event[E, T any](name string, reducer func(state *E, event T), options ...EventOption) Declaration[E] {
	return Declaration[E]{add: func(t *instance.Type) {
		c := instance.NewCodec(sharding.FormOfEvent, reflect.TypeFor[T](), name)
		for _, o := range options {
			o.setForm(c)
		}
		if reducer == nil {
			t.Complain(fmt.Errorf("event %s has no reducer", name))
		}
		t.AddEvent(c, func(state, event any) { reducer(state.(*E), event.(T)) })
	}}
}

// EventOption is an option of [Event]: [V], [Alias] or [ReadableBy].
type EventOption interface{ setForm(*instance.Codec) }

// FormOption is an option of events, and of commands whose inputs are stored ([Stored]).
type FormOption struct{ set func(*instance.Codec) }

func (o FormOption) setForm(c *instance.Codec)      { o.set(c) }
func (o FormOption) setCommand(c *instance.Command) { o.set(c.Input) }

// V sets the version in which events, or inputs of a command, are stored from now on, 1 to 65535, and the steps
// that read stored ones of older versions. The first version is 1.
//
//	entity.Event("item-added", (*Cart).itemAdded,
//		entity.V(2, entity.From(1, func(old ItemAddedV1) ItemAdded { return ItemAdded{Item: old.SKU, Count: 1} })))
//
// The version must be raised with every change of the stored data: a field that is added, removed, renamed or
// means something else. A stored event of an older version without a step is refused. Inputs from callers have
// no version.
func V(version int, steps ...Step) FormOption {
	return FormOption{func(c *instance.Codec) { c.Version, c.Steps = version, unwrap(steps) }}
}

// ReadableBy lets a program read an event or a stored input if it knows at least the given version of it. Such a
// program ignores the fields that it does not know. Without ReadableBy, a program must know at least the version
// in which the event is stored. The event must keep all fields of the versions from the given one on: [From] a
// version shows which these are. An entity that has ignored a field takes no snapshots.
func ReadableBy(version int) FormOption {
	return FormOption{func(c *instance.Codec) { c.ReadableBy = version }}
}

// Alias gives names that an event or command had before. What was stored under such a name (events, reminders,
// sends of other entities, and the answers that a [ReplyTo] has asked for) can still be read and run, and callers
// of a command may still use it.
func Alias(names ...string) FormOption {
	return FormOption{func(c *instance.Codec) { c.Aliases = append(c.Aliases, names...) }}
}

// Step reads what an older version stored. [From] makes one for events and inputs, [FromSnapshot]
// one for snapshots.
type Step struct{ step instance.Step }

func unwrap(steps []Step) []instance.Step {
	var list []instance.Step
	for _, s := range steps {
		list = append(list, s.step)
	}
	return list
}

// From is the step from an older version of an event, or of a stored input, with the Go type
// that it had, to the current one. The function must depend on nothing but its argument.
func From[Old, New any](version int, upgrade func(Old) New) Step {
	return Step{instance.From(version, reflect.TypeFor[Old](), reflect.TypeFor[New](), func(old any) any { return upgrade(old.(Old)) })}
}

// FromSnapshot is the step from a snapshot of an older version, with the Go type that
// the state had, to the current state. It gets the empty entity to fill. The function
// must depend on nothing but its arguments.
func FromSnapshot[Old, E any](version int, upgrade func(old Old, state *E)) Step {
	return Step{instance.FromSnapshot(version, reflect.TypeFor[Old](), reflect.TypeFor[E](), func(old, state any) { upgrade(*old.(*Old), state.(*E)) })}
}
