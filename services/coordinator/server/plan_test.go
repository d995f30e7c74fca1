package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestPlan: a running coordinator lists the moves of a plan, takes the strategies that its
// configuration could name, and refuses what is not here.
func TestPlan(t *testing.T) {
	noneLeft(t)
	dir, addr := t.TempDir(), freeAddr(t)
	c := start(t, dir, addr, "static://"+addr, nil)
	f := newRegion(t, []string{addr}, sharding.TypeDesc{Type: "T", Shards: 4})
	f.register(t, addr)
	admin := adminv1.NewAdminProtobufClient("http://"+c.node.ManagementAddr(), c.client)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := admin.Plan(ctx, &adminv1.PlanRequest{Type: "T", Without: []string{f.self.Addr}, Strategy: "threshold max_simultaneous=5"})
	if err != nil || len(res.Regions) != 1 || !res.Regions[0].Leaves || len(res.Moves) > 0 {
		t.Errorf("%v, %v", res, err)
	}
	for _, test := range []struct {
		req  *adminv1.PlanRequest
		code twirp.ErrorCode
		want string
	}{
		{&adminv1.PlanRequest{Type: "U"}, twirp.NotFound, "no entity type U; declared are T"},
		{&adminv1.PlanRequest{Without: []string{"region-9"}}, twirp.NotFound, "no region region-9"},
		{&adminv1.PlanRequest{TimeoutMs: -1}, twirp.InvalidArgument, "timeout_ms is -1, must be at most 600000, or 0 for 30000"},
		{&adminv1.PlanRequest{TimeoutMs: 600_001}, twirp.InvalidArgument, "timeout_ms is 600001"},
		{&adminv1.PlanRequest{Strategy: "most-shards"}, twirp.InvalidArgument, "use one of least-shards, threshold"},
	} {
		_, err := admin.Plan(ctx, test.req)
		if e, ok := err.(twirp.Error); !ok || e.Code() != test.code || !strings.Contains(e.Msg(), test.want) {
			t.Errorf("%v: %v, want %s: %s", test.req, err, test.code, test.want)
		}
	}
	c.end()
}
