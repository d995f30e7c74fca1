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
// An entity handles one command at a time, so that its methods need no locks. State must change
// only in Apply. [Ctx.Persist] stages events and applies them at once. Apply always gets an event
// that was decoded from its stored form, also when the event is new. A time in an event must come
// from [Ctx.Now]. The reply leaves when the events are durable.
//
// If a handler returns an error after Persist, its events are discarded, and the entity is loaded
// again. So the command was not applied. What its caller gets depends on the error:
//
//   - An error made by [Errorf] is the answer of the entity. It is stored with the
//     idempotency key, and repeated to duplicates.
//   - After any other error, a panic, or a reply longer than 1 MiB, the command is rejected.
//     For a volatile type the outcome is unknown instead, because what the handler has
//     changed cannot be undone.
//
// # Shards
//
// A shard is the unit that is placed and moved. Usually the whole id of an entity decides about its
// shard, so related entities may be in different regions. With [Type.ShardBy], a part of the id
// decides: by Prefix("/"), customer-17/order-5 and customer-17/order-6 are in one shard, and a call from
// one to the other stays in the process. The rule never changes once a type is used. A test of your
// own can check it with [entitytest.Kit.WantOneShard].
//
// # Versions
//
// Replies are read leniently: a caller ignores fields that it does not know. Commands are
// read strictly: an unknown field is refused as invalid_argument. A field that is missing in
// a command is zero, because callers may be older.
//
// Stored events are read strictly too. A version of the program reads an event only if this
// version could have stored the event as it is:
//
//   - it knows the name and the version of the event;
//   - the event has all fields that this version knows, and no others;
//   - the name of each field is exactly the one that this version writes; case matters;
//   - a field is null only if its Go type has a nil.
//
// If an event cannot be read, the commands of its entity are refused as data_loss, until a
// region runs a version of the program that can read it.
//
// The rules above have exceptions:
//
//   - [EventType.ReadableBy] lets earlier versions ignore the fields that they do not know.
//   - A field with omitempty or omitzero may be missing. Adding or removing one of these options changes the
//     stored data, as a change of a field does.
//   - A field may be null if the MarshalJSON of its type writes null.
//
// Snapshots are read by the same rules, if they have the form in which this version stores
// them.
//
// [Event] gives an event a stored name and a version; [From] declares how to convert an older
// version of the event to the current one. [FromSnapshot] reads a snapshot of another form; without
// it the snapshot is ignored, and the state is rebuilt from the events. The inputs of
// reminders and sends are stored too. Only commands that are declared with [Handle.Stored] can be used
// for reminders and sends. Their inputs are read by the rules for events.
// The test [entitytest.Schema] fails when stored data would become unreadable.
// docs/using/schema-evolution.md explains all of this.
//
// # What this does not do
//
// Types made by [DefineVolatile] have their state in memory only. It is lost when the entity is
// passivated or its region crashes, and also when the entity moves, unless the type has
// [Type.KeepOnMoves]. The timers of [Handle.After] and [Handle.Every] are volatile for all types: a
// pending timer keeps its entity from being passivated, but is lost when the region crashes, and
// when the entity moves, unless its type has KeepOnMoves. Reminders ([Handle.Remind]) are not lost: a reminder is stored with the events of
// its turn, and brings the entity to life. After a lost answer, a command that changes state and has
// no key is not repeated.
//
// [entitytest.Kit.WantOneShard]: https://pkg.go.dev/github.com/roost-cluster/roost/sdk/entitytest#Kit.WantOneShard
// [entitytest.Schema]: https://pkg.go.dev/github.com/roost-cluster/roost/sdk/entitytest#Schema
package entity
