package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestPlan: a running coordinator says what would move, takes the strategies that its
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
		{&adminv1.PlanRequest{Strategy: "most-shards"}, twirp.InvalidArgument, "use one of least-shards, threshold"},
	} {
		_, err := admin.Plan(ctx, test.req)
		if e, ok := err.(twirp.Error); !ok || e.Code() != test.code || !strings.Contains(e.Msg(), test.want) {
			t.Errorf("%v: %v, want %s: %s", test.req, err, test.code, test.want)
		}
	}
	c.end()
}

// TestToPlan: regions are called by their names, or addresses, and their shards of all types count.
func TestToPlan(t *testing.T) {
	a, b := sharding.NodeID{Addr: "a:1", UID: 1}, sharding.NodeID{Addr: "b:1", UID: 2}
	shard := func(typ sharding.EntityType, i uint32) sharding.ShardID { return sharding.ShardID{Type: typ, Index: i} }
	view := func(typ sharding.EntityType) allocation.TypePlan {
		return allocation.TypePlan{View: allocation.View{Type: typ, Regions: []allocation.Region{
			{Node: a, Name: "r", Status: allocation.Leaving, Shards: []sharding.ShardID{shard(typ, 0), shard(typ, 1)}}, {Node: b},
		}}}
	}
	p := coordinator.Proposal{Input: allocation.PlanInput{Types: []allocation.TypePlan{view("T"), view("U")}}, HeldBack: []string{"wait"}}
	got := toPlan(p, []allocation.Move{
		{Shard: shard("T", 1), From: a, To: b, Reason: allocation.ReasonLeave, Broken: allocation.BrokenPin | allocation.BrokenZone},
	}, []sharding.ShardID{shard("U", 0)})
	want := &adminv1.PlanResponse{
		Moves:    []*adminv1.PlannedMove{{Type: "T", Index: 1, From: "r", To: "b:1", Reason: "leave", Broken: "pin zone"}},
		Unplaced: []*adminv1.UnplacedShard{{Type: "U", Index: 0, Region: "r"}},
		Regions:  []*adminv1.PlannedRegion{{Region: "b:1", After: 1}, {Region: "r", Before: 4, After: 3, Leaves: true}},
		HeldBack: []string{"wait"},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
