package instance

import (
	"context" // pure: its errors
	"errors"

	"github.com/roost-cluster/roost/libs/foreign"
)

// fault is an error of the author's code after it has left that code: its text, and the errors in it that are Roost's.
// The author's own error stays behind. Its methods (Error, Is, As, Unwrap) are the author's code, and a caller that asked it
// later, such as a log, has nothing that would take a panic of theirs.
type fault struct {
	text string
	ours []error
}

func (f *fault) Error() string { return f.text }

// Unwrap returns the errors of Roost, for [errors.Is] and [errors.As].
func (f *fault) Unwrap() []error { return f.ours }

// settled returns an error that runs none of the author's code, with the text of err. It runs that code itself, so it
// must be called where the author's code has run, and may end the goroutine.
func settled(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *fault, *misuse:
		return err
	case *Failure: // the handler's error stays behind here, too
		if _, ok := e.Err.(*fault); ok {
			return err
		}
		return &Failure{Code: e.Code, Message: e.Message, Outcome: e.Outcome, Err: settled(e.Err)}
	case *BadInput:
		return &BadInput{settled(e.Err)}
	case *StoredError:
		if e == nil {
			break
		}
		if _, ok := e.Err.(*fault); ok { // from unreadable; another one may be the author's
			return err
		}
	}
	text := foreign.Text(err)
	if foreign.IsNil(err) {
		text += "; as an error that is not nil: return nil itself where nothing has failed"
	}
	return &fault{text: text, ours: oursIn(err)}
}

// sentinels are the errors that a fault keeps.
var sentinels = []error{
	ErrReadOnly, ErrVolatile, ErrTurnOver, ErrUnknownEvent, ErrDeleted, ErrGoexit, ErrStored, ErrLossySnapshot, ErrPartlyRead, ErrOtherForm,
	context.Canceled, context.DeadlineExceeded,
}

// oursIn returns the errors of Roost within an error. Those behind a method that panics are not found.
func oursIn(err error) (ours []error) {
	defer func() { _ = recover() }()
	if e, ok := errors.AsType[*Failure](err); ok {
		ours = append(ours, settled(e))
	}
	if e, ok := errors.AsType[*misuse](err); ok {
		ours = append(ours, e)
	}
	if e, ok := errors.AsType[*Panic](err); ok && e != nil {
		ours = append(ours, e)
	}
	if e, ok := errors.AsType[*shapeError](err); ok {
		ours = append(ours, e)
	}
	for _, e := range sentinels {
		if errors.Is(err, e) {
			ours = append(ours, e)
		}
	}
	if e, ok := errors.AsType[*StoredError](err); ok && e != nil {
		stored := *e
		stored.Err = settled(e.Err)
		ours = append(ours, &stored)
	}
	return ours
}
