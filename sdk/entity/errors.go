package entity

import (
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Code is the reason why a command has no plain reply, in the vocabulary of Twirp and gRPC.
type Code string

// Codes for business errors; see [Errorf].
const (
	InvalidArgument    Code = "invalid_argument"
	NotFound           Code = "not_found"
	AlreadyExists      Code = "already_exists"
	Aborted            Code = "aborted"
	Unauthenticated    Code = "unauthenticated"
	PermissionDenied   Code = "permission_denied"
	FailedPrecondition Code = "failed_precondition"
	OutOfRange         Code = "out_of_range"
	ResourceExhausted  Code = "resource_exhausted"
	Unimplemented      Code = "unimplemented"
	Unavailable        Code = "unavailable"
	DeadlineExceeded   Code = "deadline_exceeded"
	Internal           Code = "internal"
	// DataLoss: the version that hosts the entity cannot read its stored data.
	DataLoss Code = "data_loss"
	// Canceled: the context of the call was canceled. Its outcome is NotApplied if nothing was sent.
	Canceled Code = "canceled"
	// ReplyLost: the command ran, but there was no room for its reply. A repeat with its
	// key gets the stored reply.
	ReplyLost Code = "roost_reply_lost"
	// KeyExpired: the idempotency key is too old to tell whether the command was executed. A
	// repeat gets the same answer.
	KeyExpired Code = "roost_key_expired"
)

// Outcome is the known effect of a command; see [Error].
type Outcome int

// The known effects of a command that was answered with an error.
const (
	// Executed: the command ran, and the error is the answer of the entity itself.
	Executed Outcome = iota
	// NotApplied: the command definitely had no effect.
	NotApplied
	// Unknown: the command may have had an effect.
	Unknown
)

// String returns "executed", "not applied" or "unknown".
func (o Outcome) String() string {
	switch o {
	case Executed:
		return "executed"
	case NotApplied:
		return "not applied"
	}
	return "unknown"
}

// Error is the result of a command that has no plain reply.
type Error struct {
	Code    Code
	Message string
	// Outcome is Executed for an answer of the entity itself and for ReplyLost, NotApplied if the command
	// definitely had no effect, and Unknown if it may have had one.
	Outcome Outcome
	// Number is the number of an error of Roost itself, for example "ROOST-1005"; docs/using/errors.md lists them all.
	// It is set in answers that come through a gateway. It is empty for answers of an entity, and for errors of a
	// turn's own asks. Branch on it only where Code and Outcome do not tell enough apart.
	Number string

	// ask is true for the error of an ask or a send, in which case Roost knows whether a repeat may help. Any other
	// error is its author's own.
	ask bool
}

// Error returns "code: message".
func (e *Error) Error() string {
	if e.Outcome == Unknown {
		return string(e.Code) + ": " + e.Message + " (it may have been applied)"
	}
	return string(e.Code) + ": " + e.Message
}

// Errorf returns a business error: an answer of the entity that is not success. Roost
// never retries it, and a duplicate gets the same one. The same holds for every other *[Error] that a handler returns,
// for example one of a client, except the error of the turn's own ask.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Outcome: Executed}
}

// CodeOf returns the code of an error, "" for nil, Internal for errors without one.
func CodeOf(err error) Code {
	switch e, found := find(err); {
	case !found:
		return Internal
	case e == nil:
		return ""
	default:
		return e.Code
	}
}

// OutcomeOf returns the known effect of the command that was answered with an error: Executed for nil, Unknown
// for errors that are not of type *[Error].
func OutcomeOf(err error) Outcome {
	switch e, found := find(err); {
	case !found:
		return Unknown
	case e == nil:
		return Executed
	default:
		return e.Outcome
	}
}

// find returns the *Error in an error, and nil if there is no error. The field Err of an [Answer] without an error
// is a nil pointer, which is not nil as an error.
func find(err error) (e *Error, found bool) {
	found = err == nil || errors.As(err, &e)
	return e, found
}

// errorOf returns the error in a reply, or nil.
func errorOf(r *sharding.Reply) *Error {
	if r.Outcome == sharding.Executed && r.Code == "" {
		return nil
	}
	e := &Error{Code: Code(r.Code), Message: r.Message, Outcome: Unknown, ask: true}
	switch r.Outcome {
	case sharding.Executed:
		e.Outcome = Executed
	case sharding.NotApplied:
		e.Outcome = NotApplied
	}
	return e
}

// failure returns a handler's error as the runtime takes it. The methods of an error are the author's code: if one
// panics, the error stays as it is.
func failure(err error) (out error) {
	out = err
	defer func() { _ = recover() }()
	var e *Error
	if !errors.As(err, &e) || e == nil {
		return err
	}
	f := &instance.Failure{Code: sharding.Code(e.Code), Message: e.Message, Outcome: sharding.Unknown, Err: err}
	switch {
	// An error that its author made, or got from a client, is the entity's answer, whatever its Outcome describes. If it
	// passed as the failure of an ask, gateways would repeat the command until its deadline.
	case !e.ask, e.Outcome == Executed:
		f.Outcome = sharding.Executed
	case e.Outcome == NotApplied:
		f.Outcome = sharding.NotApplied
	}
	return f
}
