package adminclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// planner is a coordinator whose plans take a while.
type planner struct {
	adminv1.Admin
	takes   time.Duration
	standby bool
}

func (p *planner) Plan(ctx context.Context, _ *adminv1.PlanRequest) (*adminv1.PlanResponse, error) {
	if p.standby {
		return nil, twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by")
	}
	select {
	case <-time.After(p.takes):
		return &adminv1.PlanResponse{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// unable is a coordinator that is active and cannot carry out requests, for example because its audit has no room.
type unable struct{ adminv1.Admin }

func (unable) Steering(context.Context, *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	return &adminv1.SteeringResponse{}, nil
}

func (unable) Freeze(context.Context, *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	return nil, twirp.NewError(twirp.Unavailable, "nothing was done, because the audit cannot be written")
}

// standing is a coordinator that stands by.
type standing struct{ adminv1.Admin }

func (standing) Steering(context.Context, *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	return nil, twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by")
}

// TestUnableCoordinator: the error of a coordinator that cannot do its work does not claim that none is active.
func TestUnableCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Client{urls: []string{"a", "b"}, clients: []adminv1.Admin{unable{}, standing{}}}
		a.withoutTimeout = a
		_, err := a.Freeze(t.Context(), &adminv1.FreezeRequest{})
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "the audit cannot be written") || strings.Contains(err.Error(), "no coordinator is active") {
			t.Errorf("the error: %v", err)
		}
	})
}

// TestPlanTakesLong: an answer that takes longer than an election is waited for, but not forever. If no
// coordinator is active, the wait is as short as for other questions.
func TestPlanTakesLong(t *testing.T) {
	if d := newHTTPWithoutTimeout(Options{}).Timeout; d != 0 {
		t.Errorf("an answer must come within %v", d)
	}
	for _, c := range []struct {
		planner
		timeoutMs int64
		after     time.Duration
		err       string
	}{
		{planner{takes: 29 * time.Second}, 0, 29 * time.Second, ""},
		{planner{takes: time.Hour}, 0, planTimeout, "deadline"},
		{planner{takes: time.Minute}, 120_000, time.Minute, ""},
		{planner{takes: time.Hour}, 60_000, time.Minute + electionTimeout, "deadline"},
		{planner{standby: true}, 0, electionTimeout, "no coordinator is active; /readyz?verbose at the management address of each has the reason"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			a := &Client{withoutTimeout: &Client{noTimeout: true, urls: []string{"a"}, clients: []adminv1.Admin{&c.planner}}}
			_, err := a.Plan(t.Context(), &adminv1.PlanRequest{TimeoutMs: c.timeoutMs})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || time.Since(begin) != c.after {
				t.Errorf("%+v: %v after %v", c, err, time.Since(begin))
			}
		})
	}
}
