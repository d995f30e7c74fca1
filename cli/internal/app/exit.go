package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitUnreachable = 6
	ExitTimedOut    = 7
	ExitInterrupted = 130
)

// ErrInterrupted is returned by a command that was ended by Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// Ended returns the error of a command that has waited: timeout, if its time is over.
func Ended(ctx context.Context, err error, timeout string) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timeoutError{errors.New(timeout)}
	}
	return ErrInterrupted
}

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one in the command line.
func Usage(err error) error { return usageError{err} }

// refusedError is a command that a gateway could not have executed.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// Refused marks the error of a command that a gateway could not have executed.
func Refused(err error) error { return refusedError{err} }

// timeoutError is the end of the time that --timeout gives a command.
type timeoutError struct{ error }

func (e timeoutError) Unwrap() error { return e.error }

// TimedOut marks an error as the end of the time that --timeout gives a command.
func TimedOut(err error) error { return timeoutError{err} }

// notFound is a refusal because the name is unknown.
type notFound struct{ why string }

func (e notFound) Error() string { return e.why }

func (e notFound) Unwrap() error { return cluster.ErrUnknown }

// NotFound returns the error about an unknown name.
func NotFound(why string) error { return notFound{why} }

// ExitUnchecked is the exit code of a tool that could not find out what was asked. The
// region binaries' own tools use the same code.
const ExitUnchecked = 2

// ToolStatus is the exit code of a tool that has printed everything itself.
type ToolStatus int

func (s ToolStatus) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// toolError is the error of a tool that could not be run.
type toolError struct{ error }

func (e toolError) Unwrap() error { return e.error }

// Unchecked marks an error as the reason why a tool could not be run.
func Unchecked(err error) error { return toolError{err} }

// ExitCode returns the exit code for an error.
func ExitCode(ctx context.Context, err error) int {
	var usage usageError
	var late timeoutError
	var refused refusedError
	var failed *entity.Error
	var remote twirp.Error
	var status ToolStatus
	var unchecked toolError
	switch {
	case errors.Is(err, ErrInterrupted), errors.Is(context.Cause(ctx), context.Canceled):
		return ExitInterrupted
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &unchecked):
		return ExitUnchecked
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &late):
		return ExitTimedOut
	case errors.As(err, &refused):
		return ExitFailed
	case errors.Is(err, adminclient.ErrWrongAddress):
		return ExitUsage
	case errors.Is(err, cluster.ErrNoCluster), errors.Is(err, adminclient.ErrUnreachable):
		return ExitUnreachable
	case errors.Is(err, cluster.ErrUnknown):
		return ExitNotFound
	case errors.As(err, &failed):
		switch {
		case failed.Code == entity.NotFound:
			return ExitNotFound
		case failed.Code == entity.Unavailable && failed.Outcome != entity.Executed: // else the entity says so
			return ExitUnreachable
		}
	case errors.As(err, &remote):
		switch remote.Code() {
		case twirp.NotFound:
			return ExitNotFound
		case twirp.InvalidArgument:
			return ExitUsage
		}
	}
	return ExitFailed
}

// Message returns the text of an error for people.
func Message(err error) string {
	var remote twirp.Error
	if !errors.Is(err, adminclient.ErrUnreachable) && errors.As(err, &remote) {
		if remote.Code() == twirp.Unauthenticated {
			return remote.Msg() + "; give the token by --token-file FILE or in ROOST_ADMIN_TOKEN"
		}
		return remote.Msg()
	}
	return err.Error()
}
