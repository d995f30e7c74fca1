package adminclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twitchtv/twirp"
)

// pollInterval is the pause between two attempts of Until.
const pollInterval = 100 * time.Millisecond

// Until makes a request again and again, every 100 ms, until done reports that the answer is the wanted one. It
// returns this answer. It sends the whole request each time, because the coordinator that accepted an earlier
// attempt may have failed before it stored the request.
//
// If the context ends first, Until returns the last answer, or nil if there was none, and an error that wraps
// the error of the context. Any other error of ask ends Until at once, with one exception: if an earlier attempt
// may have been accepted, and a coordinator refuses the request with [twirp.Aborted], Until continues. A
// coordinator that has just become active refuses many requests in this way, and accepts them a moment later. If
// the context then ends, the error also wraps the refusal.
func Until[A any](ctx context.Context, ask func(context.Context) (*A, error), done func(*A) bool) (*A, error) {
	var last *A
	var refusal error
	accepted := false // an attempt may have been accepted
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		answer, err := ask(ctx)
		accepted = accepted || err == nil || errors.As(err, new(unsure))
		switch {
		case err != nil && ctx.Err() == nil && accepted && isCode(err, twirp.Aborted):
			refusal = err
		case err != nil && ctx.Err() == nil && accepted:
			return nil, unsure{err}
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil && done(answer):
			return answer, nil
		case err == nil:
			last, refusal = answer, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			if refusal != nil {
				return last, fmt.Errorf("no coordinator has completed the request in time, and the last one refused it: %w: %w", refusal, ctx.Err())
			}
			return last, fmt.Errorf("no coordinator has completed the request in time: %w", ctx.Err())
		}
	}
}

// unsure wraps an error if a coordinator may have accepted an attempt of the request although the attempt was
// not answered.
type unsure struct{ error }

func (e unsure) Unwrap() error { return e.error }

func isCode(err error, code twirp.ErrorCode) bool {
	var e twirp.Error
	return errors.As(err, &e) && e.Code() == code
}
