// Package entity is the API for authors of stateful entities: an entity is a Go struct,
// its commands are methods, its state changes are events.
//
//	type Counter struct{ N int64 }
//
//	type Added struct{ Delta int64 }
//
//	func (c *Counter) Apply(event any) {
//		switch e := event.(type) {
//		case Added:
//			c.N += e.Delta
//		}
//	}
//
//	func (c *Counter) Add(ctx *entity.Ctx, delta int64) (int64, error) {
//		if err := ctx.Persist(Added{delta}); err != nil {
//			return 0, err
//		}
//		return c.N, nil
//	}
//
//	var (
//		Add      = entity.Command[int64, int64]("Counter", "Add")
//		Counters = entity.Define("Counter", func(id string) *Counter { return &Counter{} },
//			entity.On(Add, (*Counter).Add)).Events(Added{})
//	)
//
// A command handle like Add is also the typed way to call it:
//
//	n, err := Add.Ask(ctx, client, "c1", 5)
//
// # Guarantees
//
// An entity handles one command at a time, so that its methods need no locks. State must
// change only in Apply. Live and in replay, Apply gets the same event: the stored form,
// decoded. [Ctx.Persist] stages events and applies them at once. If an event has a time, it
// must come from [Ctx.Now]. The reply leaves when the events are durable.
//
// A handler that returns an error after Persist is undone: its events are discarded, and
// the entity is loaded again. An error made by [Errorf] is an answer all the same: it is
// stored with the idempotency key, without the events, and repeated to duplicates. After
// any other error, a panic, or a reply longer than 1 MiB, the command was not applied. For a
// volatile type the outcome is unknown instead, because what the handler has changed cannot
// be undone.
//
// # Versions
//
// Replies are read leniently: a caller ignores fields that it does not know. Commands are
// read strictly: an unknown field is refused as invalid_argument. One that is missing is
// zero, because callers may be older.
//
// What is stored must be what this version itself would store. An event or a snapshot with
// an unknown name, version or field, without one of the fields, with a name in another case,
// or with null where the type has no nil, is refused as data_loss, until a version that
// knows it is run. Fields with omitempty or omitzero may be missing, and MarshalJSON may
// write null. Adding or removing omitempty or omitzero changes the form.
//
// [Event] gives an event a stored name and a version; [From] declares how to convert an
// older version. A snapshot of another form is ignored, and the state rebuilt from the
// events, unless [FromSnapshot] reads it. The test [entitytest.Schema] fails when stored
// data would become unreadable. docs/schema-evolution.md explains all of this.
//
// # What this does not do
//
// Types made by [DefineVolatile] keep their state in memory only: it is gone when the
// entity is passivated, moved or lost. Timers are volatile for all types: a pending one
// keeps its entity from being passivated, but it dies when the entity is moved or lost.
// Commands that change state and have no key are not repeated after a lost answer.
//
// [entitytest.Schema]: https://pkg.go.dev/github.com/roost-cluster/roost/sdk/entitytest#Schema
package entity
