package adminclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"
)

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		never := func(*int) bool { return false }
		var asked int
		count := func(context.Context) (*int, error) {
			asked++
			n := asked
			return &n, nil
		}
		if got, err := Until(t.Context(), count, func(n *int) bool { return *n == 3 }); err != nil || *got != 3 || asked != 3 {
			t.Errorf("the third answer is wanted: %v, %v after %d requests", got, err, asked)
		}
		if got, err := Until(t.Context(), func(context.Context) (*int, error) { return nil, refused }, never); got != nil || !errors.Is(err, refused) {
			t.Errorf("a request that is refused: %v, %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked = 0
		if got, err := Until(ctx, count, never); got == nil || *got != asked || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the time is over: %v, %v", got, err)
		}
		if got, err := Until(ctx, func(ctx context.Context) (*int, error) { return nil, ctx.Err() }, never); got != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no answer in time: %v, %v", got, err)
		}
	})
}

// TestUntilRefused: a refusal is waited out if an earlier attempt may have been taken, and only then.
func TestUntilRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later, never := twirp.NewError(twirp.Aborted, "the coordinator waits for the regions"), twirp.NewError(twirp.NotFound, "no region r9")
		n := 0
		for _, c := range []struct {
			answers []error // nil: an answer
			asked   int
			want    error
		}{
			{[]error{later, nil}, 1, later},
			{[]error{never, nil}, 1, never},
			{[]error{nil, later, later, nil, nil}, 5, nil},
			{[]error{nil, later, never, nil}, 3, never},
			{[]error{unsure{later}, later, nil}, 3, nil},
			{[]error{unsure{never}, nil}, 1, never},
			{[]error{unsure{ErrUnreachable}, nil}, 1, ErrUnreachable},
		} {
			n = 0
			ask := func(context.Context) (*int, error) {
				n++
				return &n, c.answers[n-1]
			}
			_, err := Until(t.Context(), ask, func(*int) bool { return n == len(c.answers) })
			if n != c.asked || !errors.Is(err, c.want) {
				t.Errorf("%v: asked %d times, %v", c.answers, n, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n = 0
		_, err := Until(ctx, func(context.Context) (*int, error) {
			if n++; n == 1 {
				return &n, nil
			}
			return nil, later
		}, func(*int) bool { return false })
		if !errors.Is(err, later) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("refused until the end: %v", err)
		}
	})
}
