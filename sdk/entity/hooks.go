package entity

// Starter is implemented by states of entities that act when they are activated, after their
// state is loaded. The hook may set timers ([Handle.After], [Handle.Every]), whose commands do
// the rest: it cannot persist, remind, send, ask or delete. An error fails the activation. The context ends when the load has
// taken too long (30 s); a hook that keeps running is not waited for, but keeps its
// goroutine. While region.entity_loads (4) hooks of one entity have not returned,
// commands for it are refused as unavailable.
type Starter interface{ OnStart(ctx *Ctx) error }

// Stopper is implemented by states of entities that act before they are passivated or handed
// off. It is not called when the process dies.
type Stopper interface {
	OnStop(ctx *Ctx, why StopReason)
}

// StopReason is the reason why an entity is stopped.
type StopReason string

const (
	// Passivated: the entity was idle for long, was chosen to free memory, or has asked to be stopped.
	Passivated StopReason = "passivated"
	// HandedOff: the shard moves, or the region drains.
	HandedOff StopReason = "handed-off"
)

// Sized is implemented by states of entities that know about how much memory they take, in bytes; 0 is not known.
// Size is called when the entity has been loaded, and after every turn that succeeds, so it must be quick.
// A region with little memory then need not wait for the next garbage collection to see that entities have
// become large.
type Sized interface{ Size() int }

// Snapshotter is implemented by states that encode their snapshots themselves.
// Otherwise a snapshot is the exported fields as JSON.
type Snapshotter interface {
	Snapshot() ([]byte, error)
	Restore([]byte) error
}

// Enum is implemented by a type of constants that declares its values. Reflection does not see constants. The values
// are a part of the form of events, snapshots and inputs that hold the type: a new one is a change of the form, which
// needs a new version. A value that is not declared is refused, where it is stored and where it is sent.
//
//	type Status string
//
//	const (
//		Open   Status = "open"
//		Closed Status = "closed"
//	)
//
//	func (Status) Values() []Status { return []Status{Open, Closed} }
type Enum[T any] interface{ Values() []T }
