package entity

import (
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Code is the reason why a command has no plain reply, in the vocabulary of Twirp and gRPC.
type Code = sharding.Code

// Codes for business errors; see [Errorf].
const (
	InvalidArgument    = sharding.InvalidArgument
	NotFound           = sharding.NotFound
	AlreadyExists      = sharding.AlreadyExists
	Aborted            = sharding.Aborted
	Unauthenticated    = sharding.Unauthenticated
	PermissionDenied   = sharding.PermissionDenied
	FailedPrecondition = sharding.FailedPrecondition
	OutOfRange         = sharding.OutOfRange
	ResourceExhausted  = sharding.ResourceExhausted
	Unimplemented      = sharding.Unimplemented
	Unavailable        = sharding.Unavailable
	DeadlineExceeded   = sharding.DeadlineExceeded
	Internal           = sharding.Internal
	// DataLoss: the version that hosts the entity cannot read its stored data.
	DataLoss = sharding.DataLoss
	// ReplyLost: the command ran, but there was no room for its reply. A repeat with its
	// key gets the stored reply.
	ReplyLost = sharding.ReplyLost
	// KeyExpired: the idempotency key is too old to tell whether the command was executed. A
	// repeat gets the same answer.
	KeyExpired = sharding.KeyExpired
)

// Outcome describes the known effects of a command; see [Error].
type Outcome = sharding.Outcome

// The known effects of a command that was answered with an error.
const (
	// OutcomeOK: it ran, and the error is the answer of the entity itself.
	OutcomeOK = sharding.OK
	// OutcomeRejected: it was definitely not applied.
	OutcomeRejected = sharding.Rejected
	// OutcomeUnknown: it may have been applied.
	OutcomeUnknown = sharding.Unknown
)

// Errors of [Ctx.Persist].
var (
	// ErrReadOnly: a read-only command must not change state.
	ErrReadOnly = errors.New("a read-only command cannot persist events")
	// ErrVolatile: the type keeps no events.
	ErrVolatile = errors.New("a volatile type cannot persist events")
	// ErrTurnOver: the handler has returned, and what its Ctx is used for afterwards counts for
	// nothing. A goroutine of the handler must end before it.
	ErrTurnOver = errors.New("the handler has returned: it must wait for its goroutines")
	// ErrUnknownEvent: the event's type was not given to Events.
	ErrUnknownEvent = errors.New("unknown event type")
)

// ErrGoexit is the cause of the failure of a turn or hook whose code ended its goroutine. It must return, or panic.
// The methods Fatal and FailNow of package testing end a goroutine, too.
var ErrGoexit = errors.New("it ended its goroutine by runtime.Goexit instead of returning")

// ErrStored is wrapped by errors about stored events and snapshots that this
// version of a type cannot read. The entity is not activated: a state without the data
// that was not understood would be wrong.
var ErrStored = errors.New("what is stored cannot be read by this version")

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

// ErrLossySnapshot: the entity has state in fields that are not stored. No snapshot is taken.
var ErrLossySnapshot = errors.New("a snapshot would not have all of the state")

// ErrPartlyRead: the entity has events of a later version, with fields that this version
// ignores. No snapshot is taken of such a state.
var ErrPartlyRead = errors.New("the state lacks fields that a later version knows")

// Error is the result of a command that has no plain reply.
type Error struct {
	Code    Code
	Message string
	// Outcome describes the known effects of the command: OK for an answer of the entity itself and with
	// ReplyLost, Rejected if it was definitely not applied, Unknown if it may have been.
	Outcome sharding.Outcome
	// Number is the number of an error of Roost itself, such as "ROOST-1005"; docs/using/errors.md lists them all.
	// It is set in answers that come through a gateway. It is empty for answers of an entity, and for errors of a
	// turn's own asks. Branch on it only where Code and
	// Outcome do not tell enough apart.
	Number string
}

// Error returns "code: message".
func (e *Error) Error() string {
	if e.Outcome == sharding.Unknown {
		return string(e.Code) + ": " + e.Message + " (it may have been applied)"
	}
	return string(e.Code) + ": " + e.Message
}

// Errorf returns a business error: an answer of the entity that is not success. Roost
// never retries it, and a duplicate gets the same one.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Outcome: sharding.OK}
}

// CodeOf returns the code of an error, "" for nil, Internal for errors without one.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return Internal
}

// OutcomeOf returns what an error says about the command's effects: Unknown for errors
// that are not of type *[Error].
func OutcomeOf(err error) sharding.Outcome {
	var e *Error
	switch {
	case err == nil:
		return sharding.OK
	case errors.As(err, &e):
		return e.Outcome
	}
	return sharding.Unknown
}

// ReplyError returns the error that a reply carries, or nil.
func ReplyError(r sharding.Reply) error {
	if r.Outcome == sharding.OK && r.Code == "" {
		return nil
	}
	return &Error{Code: r.Code, Message: r.Message, Outcome: r.Outcome}
}
