package adminclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const (
	// askTimeout limits one attempt at one coordinator.
	askTimeout = 2 * time.Second
	// electionTimeout bounds the search for an active coordinator while only standbys answer. It is longer
	// than a lease lasts (2 s) plus the time that candidates of higher rank wait for the ones of lower rank
	// (see package lease).
	electionTimeout = 6 * time.Second
	// answerGrace is added to the coordinator's time for a command before the client times out. So the
	// client gets the coordinator's own answer, which explains more than a timeout.
	answerGrace = askTimeout / 4
	// askPause is the pause after all coordinators were tried.
	askPause = 100 * time.Millisecond
)

// ask tries one coordinator after the other until the active one has answered. An error of the active
// coordinator is a [twirp.Error]. If there is no active coordinator, the error wraps [ErrUnreachable]; if a URL
// leads to something other than a coordinator, [ErrWrongAddress]. The error is an unsure error if a coordinator
// may have accepted an attempt that it has not answered.
func ask[T any](ctx context.Context, a *Client, call func(context.Context, adminv1.Admin) (*T, error)) (*T, error) {
	if len(a.clients) == 0 {
		return nil, fmt.Errorf("%w: no coordinator is known", ErrUnreachable)
	}
	election, cancel := context.WithTimeout(ctx, electionTimeout)
	defer cancel()
	if !a.noTimeout {
		ctx = election
	}
	mayBeAccepted := false
	markUnsure := func(err error) error {
		if mayBeAccepted {
			return unsure{err}
		}
		return err
	}
	for {
		standby := false // a standby has answered
		var last, unable error
		for i, client := range a.clients {
			answer, err := call(ctx, client)
			if err == nil {
				return answer, nil
			}
			switch classify(err) {
			case activeAnswered:
				return nil, markUnsure(err)
			case nobodyAnswered:
				mayBeAccepted = mayBeAccepted || !failedToConnect(err)
			case standbyAnswered:
				standby = true
			case foreignAnswered:
				last = wrongAddress(ctx, a.options, a.urls[i], "the management listener of a coordinator")
				continue
			}
			last = fmt.Errorf("%s: %w", a.urls[i], withoutURL(err))
			var e twirp.Error
			if errors.As(err, &e) && e.Code() == twirp.Unavailable {
				unable = last
			}
		}
		switch { // without a standby there is no election to wait for
		case !standby && errors.Is(last, ErrWrongAddress):
			return nil, last
		case !standby:
			return nil, markUnsure(fmt.Errorf("%w: %w", ErrUnreachable, last))
		}
		pause := time.NewTimer(askPause)
		select {
		case <-pause.C:
		case <-election.Done():
			pause.Stop()
			if unable != nil { // it may be active, but for example have no room for its audit
				return nil, markUnsure(fmt.Errorf("%w: no active coordinator could do it: %w", ErrUnreachable, unable))
			}
			return nil, markUnsure(fmt.Errorf("%w: no coordinator is active; /readyz?verbose at the management address of each has the reason: %w", ErrUnreachable, last))
		}
	}
}

// errorKind names the kind of process that answered a call with an error.
type errorKind uint8

const (
	activeAnswered  errorKind = iota // the active coordinator, or another process that can answer the call itself
	standbyAnswered                  // a coordinator that is not active: another one may be
	nobodyAnswered                   // the connection broke, or the time was over
	foreignAnswered                  // something that does not have the API: the URL is wrong
)

// classify returns the kind of process that answered a call with an error.
func classify(err error) errorKind {
	var e twirp.Error
	if !errors.As(err, &e) {
		return nobodyAnswered
	}
	switch {
	case isUnknown(err): // although the code is one of those below
		return activeAnswered
	case isForeign(err):
		return foreignAnswered
	case e.Code() == twirp.FailedPrecondition, e.Code() == twirp.Unavailable:
		return standbyAnswered // Unavailable while a coordinator starts, or loses its lease
	case e.Code() == twirp.Internal && errors.Unwrap(e) != nil,
		e.Code() == twirp.Canceled, e.Code() == twirp.DeadlineExceeded:
		return nobodyAnswered // the generated client wraps what the HTTP client has returned
	}
	return activeAnswered
}

// failedToConnect reports whether a call has failed before anything was sent.
func failedToConnect(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// withoutURL takes the URL out of an error of the HTTP client. Its path says nothing to people, and the messages
// name the address anyway.
func withoutURL(err error) error {
	var network *url.Error
	if errors.As(err, &network) {
		return network.Err
	}
	return err
}
