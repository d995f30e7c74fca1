package adminclient

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// steered is a coordinator with one answer to moves.
type steered struct {
	adminv1.Admin
	standby bool
	move    func(context.Context, *adminv1.MoveRequest) error
	moves   atomic.Int32
}

func (c *steered) Steering(context.Context, *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	if c.standby {
		return nil, twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by")
	}
	return &adminv1.SteeringResponse{}, nil
}

func (c *steered) Move(ctx context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	c.moves.Add(1)
	return &adminv1.SteerResponse{}, c.move(ctx, req)
}

// TestSteer: a request is made once, at the active coordinator, with the time that its caller has. If it may take
// effect although it is not confirmed, the error says so; if it cannot, the error does not.
func TestSteer(t *testing.T) {
	inDoubt := func(code twirp.ErrorCode) error {
		return twirp.NewError(code, "not durable").WithMeta("outcome", sharding.Unknown.String())
	}
	standby := httptest.NewServer(adminv1.NewAdminServer(&steered{standby: true}))
	defer standby.Close()
	for name, c := range map[string]struct {
		answer  func(context.Context) error
		unknown bool
		moves   int32
	}{
		"durable":                  {answer: func(context.Context) error { return nil }, moves: 1},
		"refused":                  {answer: func(context.Context) error { return twirp.NewError(twirp.Aborted, "not now") }, moves: 1},
		"not in time":              {answer: func(context.Context) error { return inDoubt(twirp.DeadlineExceeded) }, unknown: true, moves: 1},
		"the lease is lost":        {answer: func(context.Context) error { return inDoubt(twirp.Unavailable) }, unknown: true, moves: 1},
		"the coordinator has died": {unknown: true},
		"the coordinator hangs":    {answer: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, unknown: true, moves: 1},
	} { // order-free
		t.Run(name, func(t *testing.T) {
			active := &steered{move: func(ctx context.Context, req *adminv1.MoveRequest) error {
				if left := time.Duration(req.TimeoutMs) * time.Millisecond; left <= 0 || left > 2*time.Second-answerGrace {
					t.Errorf("the coordinator has %v, and the caller two seconds", left)
				}
				return c.answer(ctx)
			}}
			api := adminv1.NewAdminServer(active)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.answer == nil && strings.HasSuffix(r.URL.Path, "/Move") {
					panic(http.ErrAbortHandler)
				}
				api.ServeHTTP(w, r)
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			req := &adminv1.MoveRequest{Type: "T", Region: "r1"}
			_, err := New(standby.URL, server.URL).Move(ctx, req)
			if errors.Is(err, ErrUnknownOutcome) != c.unknown || (err == nil) != (name == "durable") || active.moves.Load() != c.moves || req.TimeoutMs != 0 {
				t.Errorf("%d moves, %v, and the request is %v", active.moves.Load(), err, req)
			}
		})
	}
	if _, err := New("http://127.0.0.1:1").Move(t.Context(), &adminv1.MoveRequest{}); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("nothing was sent: %v", err)
	}
}

// TestSteerAgain: a coordinator that loses its lease before it gets the request has not taken it, so the request is
// made at the next one.
func TestSteerAgain(t *testing.T) {
	var active steered
	active.move = func(context.Context, *adminv1.MoveRequest) error {
		if active.moves.Load() == 1 {
			return twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by")
		}
		return nil
	}
	server := httptest.NewServer(adminv1.NewAdminServer(&active))
	defer server.Close()
	if _, err := New(server.URL).Move(t.Context(), &adminv1.MoveRequest{}); err != nil || active.moves.Load() != 2 {
		t.Errorf("%d moves, %v", active.moves.Load(), err)
	}
	active.moves.Store(0)
	active.move = func(context.Context, *adminv1.MoveRequest) error {
		return twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := New(server.URL).Move(ctx, &adminv1.MoveRequest{}); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "stands by") {
		t.Errorf("no coordinator takes it: %v", err)
	}
}
