package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/adminclient"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 6
	exitTimedOut    = 7
	exitInterrupted = 130
)

// errInterrupted is returned by a command that was ended by Ctrl-C.
var errInterrupted = errors.New("interrupted")

// ended returns the error of a command that has waited: timeout, if its time is over.
func ended(ctx context.Context, err error, timeout string) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timeoutError{errors.New(timeout)}
	}
	return errInterrupted
}

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// refusedError is a command that a gateway could not have executed.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// timeoutError is the end of the time that --timeout gives a command.
type timeoutError struct{ error }

func (e timeoutError) Unwrap() error { return e.error }

// errUnknown is a refusal because the name is unknown.
type errUnknown struct{ why string }

func (e errUnknown) Error() string { return e.why }

func (e errUnknown) Unwrap() error { return cluster.ErrUnknown }

// exitUnchecked is the exit code of a tool that could not find out what was asked. It is
// that of the region binaries' own tools.
const exitUnchecked = 2

// toolStatus is the exit code of a tool that has printed everything itself.
type toolStatus int

func (s toolStatus) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// toolError is why a tool could not be run.
type toolError struct{ error }

func (e toolError) Unwrap() error { return e.error }

// exitCode returns the exit code for an error.
func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var late timeoutError
	var refused refusedError
	var failed *entity.Error
	var remote twirp.Error
	var status toolStatus
	var unchecked toolError
	switch {
	case errors.Is(err, errInterrupted), errors.Is(context.Cause(ctx), context.Canceled):
		return exitInterrupted
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &unchecked):
		return exitUnchecked
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &late):
		return exitTimedOut
	case errors.As(err, &refused):
		return exitFailed
	case errors.Is(err, adminclient.ErrWrongAddress):
		return exitUsage
	case errors.Is(err, cluster.ErrNoCluster), errors.Is(err, adminclient.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, cluster.ErrUnknown):
		return exitNotFound
	case errors.As(err, &failed):
		switch {
		case failed.Code == entity.NotFound:
			return exitNotFound
		case failed.Code == entity.Unavailable && failed.Outcome != sharding.OK: // else the entity says so
			return exitUnreachable
		}
	case errors.As(err, &remote):
		switch remote.Code() {
		case twirp.NotFound:
			return exitNotFound
		case twirp.InvalidArgument:
			return exitUsage
		}
	}
	return exitFailed
}

// message returns the text of an error for people.
func message(err error) string {
	var remote twirp.Error
	if !errors.Is(err, adminclient.ErrUnreachable) && errors.As(err, &remote) {
		if remote.Code() == twirp.Unauthenticated {
			return remote.Msg() + "; give the token by --token-file FILE or in ROOST_ADMIN_TOKEN"
		}
		return remote.Msg()
	}
	return err.Error()
}
