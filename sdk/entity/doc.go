// Package entity is the API for authors of stateful entities: an entity is a Go struct, its commands are
// methods, its state changes are events.
//
//	type Counter struct{ N int64 }
//
//	type Added struct{ Delta int64 }
//
//	func (c *Counter) Add(ctx *entity.Ctx, delta int64) (int64, error) {
//		ctx.Persist(Added{delta})
//		return c.N, nil // is sent when the event is durable
//	}
//
//	var (
//		Add      = entity.Command[int64, int64]("Counter", "Add")
//		Counters = entity.Define("Counter", func(id string) *Counter { return &Counter{} },
//			entity.On(Add, (*Counter).Add),
//			entity.Event("added", func(c *Counter, e Added) { c.N += e.Delta }))
//	)
//
// A command handle like Add is also the typed way to call it: [Handle.Call] from outside, with a client of
// package client, and [Handle.Ask], [Handle.Send], [Handle.Remind] and [Handle.After] in handlers. A region that
// hosts the type is a main of its own: server.Main(Counters), of package services/region/server.
//
// # Promises
//
// An entity handles one command at a time, so that its methods need no locks. State changes only in the reducers
// of [Event]. The events of a turn become durable together, before its reply leaves. If a handler returns an
// error, its events are discarded, and the entity is loaded again. An error made by [Errorf] is the answer of the
// entity: it is stored with the idempotency key, and repeated to duplicates. After any other error, a panic, or a
// reply longer than [MaxPayload], the command was not applied.
//
// # State
//
// Snapshots store the exported fields of the state. Fields that are not exported are memory, for a
// connection or a cache that [Starter] or a handler makes again. A type that stores snapshots and keeps such
// memory implements [Snapshotter], because no snapshot is taken while a field may be lost ([SnapshotEvery]).
//
// Stored data is read strictly: a version of the program reads an event only if it could have stored it. [V] and
// [From] change an event, and package entitytest finds changes that would make stored data unreadable.
// docs/using/schema-evolution.md has the rules.
//
// # What this does not do
//
// Entities of [Volatile] types, and the timers of [Handle.After], live in memory only. A call that changes state,
// has no key, and lost its answer is not repeated.
package entity
