package adminclient

import (
	"context"
	"testing"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// inspector answers what is in memory, and keeps how long it was given.
type inspector struct {
	adminv1.Admin
	given time.Duration
}

func (i *inspector) take(ctx context.Context) {
	until, _ := ctx.Deadline()
	i.given = time.Until(until)
}

func (i *inspector) Entity(ctx context.Context, _ *adminv1.EntityRequest) (*adminv1.EntityResponse, error) {
	i.take(ctx)
	return &adminv1.EntityResponse{}, nil
}

func (i *inspector) Regions(ctx context.Context, _ *adminv1.RegionsRequest) (*adminv1.RegionsResponse, error) {
	i.take(ctx)
	return &adminv1.RegionsResponse{}, nil
}

func (i *inspector) ShardStates(ctx context.Context, _ *adminv1.ShardStatesRequest) (*adminv1.ShardStatesResponse, error) {
	i.take(ctx)
	return &adminv1.ShardStatesResponse{}, nil
}

// TestInspectPatience: if regions get a time of their own, the client that waits longer is used, and it
// waits longer than they may take.
func TestInspectPatience(t *testing.T) {
	quick, slow := &inspector{}, &inspector{}
	a := &Client{
		urls: []string{"a"}, clients: []adminv1.Admin{quick},
		withoutTimeout: &Client{noTimeout: true, urls: []string{"a"}, clients: []adminv1.Admin{slow}},
	}
	for _, ask := range []func(ms int64) error{
		func(ms int64) error {
			_, err := a.Entity(t.Context(), &adminv1.EntityRequest{TimeoutMs: ms})
			return err
		},
		func(ms int64) error {
			_, err := a.Regions(t.Context(), &adminv1.RegionsRequest{TimeoutMs: ms})
			return err
		},
		func(ms int64) error {
			_, err := a.ShardStates(t.Context(), &adminv1.ShardStatesRequest{TimeoutMs: ms})
			return err
		},
	} {
		*quick, *slow = inspector{}, inspector{}
		if err := ask(0); err != nil || quick.given == 0 || slow.given != 0 {
			t.Errorf("without a time: %v, %v, %v", quick.given, slow.given, err)
		}
		quick.given = 0
		if err := ask(20_000); err != nil || quick.given != 0 || slow.given < 20*time.Second {
			t.Errorf("with 20 s: %v, %v, %v", quick.given, slow.given, err)
		}
	}
}
