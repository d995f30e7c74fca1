package instance

import (
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Causes of broken turns.
var (
	ErrReadOnly     = errors.New("a read-only command cannot persist events")
	ErrVolatile     = errors.New("a volatile type cannot persist events")
	ErrDeleted      = errors.New("the turn has deleted the entity")
	ErrTurnOver     = errors.New("the handler has returned: it must wait for its goroutines")
	ErrUnknownEvent = errors.New("unknown event type")
)

// ErrGoexit is the cause of the failure of a turn or hook whose code ended its goroutine. It must return, or panic.
// The methods Fatal and FailNow of package testing end a goroutine, too.
var ErrGoexit = errors.New("it ended its goroutine by runtime.Goexit instead of returning")

// ErrStored is wrapped by errors about stored events and snapshots that this
// version of a type cannot read. The entity is not activated: a state without the data
// that was not understood would be wrong.
var ErrStored = errors.New("the stored data cannot be read by this version")

// ErrLossySnapshot: the entity has state in fields that are not stored. No snapshot is taken.
var ErrLossySnapshot = errors.New("a snapshot would not have all of the state")

// ErrPartlyRead: the entity has events of a later version, with fields that this version
// ignores. No snapshot is taken of such a state.
var ErrPartlyRead = errors.New("the state lacks fields that a later version knows")

// Failure is a handler's error for its caller: the entity's own answer if Outcome is Executed, otherwise the error of
// an ask that the handler has passed on.
type Failure struct {
	Code    sharding.Code
	Message string
	Outcome sharding.Outcome
	Err     error // the handler's error
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// misuse is a request of a handler that can never succeed. Unlike other failures it goes to the caller: it
// names the mistake, and reveals nothing of the entity's state. It is refused as failed_precondition, which
// callers do not retry.
type misuse struct{ err error }

// misused returns a misuse; its fix is a change of the handler.
func misused(format string, args ...any) error {
	return &misuse{fmt.Errorf(format, args...)}
}

func (m *misuse) Error() string { return m.err.Error() }

func (m *misuse) Unwrap() error { return m.err }

// StoredError names the stored data of an entity that cannot be read, with the reason. It wraps
// [ErrStored].
type StoredError struct {
	Entity sharding.Entity
	What   string // "snapshot", "event" and its stored name, or "input of" a command
	Err    error  // what is wrong with it
	Fix    string // what the author of this version can do, for a tool that asks before it is run
}

// Error names the entity, what cannot be read and why, and what an operator can do.
func (e *StoredError) Error() string {
	do := "run the version of the type that knows it"
	if damaged(e.Err) {
		do = fixDamage
	}
	return fmt.Sprintf("%v: %s of %s: %v; %s", ErrStored, e.What, e.Entity, e.Err, do)
}

// Unwrap returns ErrStored and Err.
func (e *StoredError) Unwrap() []error { return []error{ErrStored, e.Err} }

// fixSnapshot is the StoredError.Fix of snapshots.
const fixSnapshot = "raise the version with SnapshotV, so that older snapshots are ignored or read by a step"

// fixDamage is the StoredError.Fix of data that no version of the program has stored.
const fixDamage = "restore the journal from a copy"

// damaged reports whether an error is about something that no version has stored.
func damaged(err error) bool {
	var shape *shapeError
	return errors.As(err, &shape) && shape.damaged
}
