package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestSetTarget: an operator sets the target at a running coordinator, which stores it.
func TestSetTarget(t *testing.T) {
	noneLeft(t)
	dir, addr := t.TempDir(), freeAddr(t)
	c := start(t, dir, addr, "static://"+addr, nil)
	f := newRegion(t, []string{addr}, sharding.TypeDesc{Type: "T", Shards: 1})
	f.register(t, addr)
	admin := func() adminv1.Admin {
		return adminv1.NewAdminProtobufClient("http://"+c.node.ManagementAddr(), c.client)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	target := func() *adminv1.RolloutResponse {
		t.Helper()
		res, err := admin().Rollout(ctx, &adminv1.RolloutRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if r := target(); r.Target != "1.2.3" {
		t.Fatalf("the first version is no target: %v", r)
	}
	if _, err := f.api.Call(ctx, addr, control.Register{Name: "region-1", Types: f.types, Version: "2"}); err != nil {
		t.Fatal(err)
	}
	if r := target(); r.Target != "2" || !slices.Equal(r.Seen, []string{"1.2.3"}) {
		t.Fatalf("the second version is no target: %v", r)
	}
	for version, code := range map[string]twirp.ErrorCode{
		"3": twirp.NotFound, "": twirp.InvalidArgument, "a\u202eb": twirp.InvalidArgument,
	} { // order-free
		_, err := admin().SetTarget(ctx, &adminv1.SetTargetRequest{Version: version})
		if e, ok := err.(twirp.Error); !ok || e.Code() != code {
			t.Errorf("%q: %v, want %s", version, err, code)
		}
	}
	var last *adminv1.SetTargetResponse
	await(t, "the target is stored", func() bool {
		var err error
		last, err = admin().SetTarget(ctx, &adminv1.SetTargetRequest{Version: "1.2.3", By: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		return last.Stored
	})
	if last.Target != "1.2.3" || len(last.Regions) > 0 || last.NextTarget != "2" || last.NextTargetMs == 0 {
		t.Errorf("nobody runs it, and the answer is %v", last)
	}
	c.end()
	c = start(t, dir, addr, "static://"+addr, nil)
	await(t, "the next term has the target", func() bool {
		res, err := admin().Rollout(ctx, &adminv1.RolloutRequest{})
		return err == nil && res.Target == "1.2.3"
	})
	c.end()
}
