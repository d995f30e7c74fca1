package console

import (
	"context"
	"errors"
	"testing"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestPlanTakesTooLong: a plan that is not ready in time ends, and the error has the reason.
func TestPlanTakesTooLong(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := 0
	slow := &slowStrategy{func() {
		if asked++; asked == 3 {
			cancel(errors.New("the plan was not ready after 1s"))
		}
	}}
	a, b := sharding.NodeID{Addr: "a:1", UID: 1}, sharding.NodeID{Addr: "b:1", UID: 2}
	v := allocation.View{Type: "T", Regions: []allocation.Region{{Node: a, Status: allocation.Leaving}, {Node: b}}}
	for i := range uint32(100) {
		v.Regions[0].Shards = append(v.Regions[0].Shards, sharding.ShardID{Type: "T", Index: i})
	}
	made := func(s allocation.Strategy) coordinator.Proposal {
		return coordinator.Proposal{Input: allocation.PlanInput{Types: []allocation.TypePlan{{View: v, Strategy: s}}}}
	}
	done := make(chan struct{})
	_, err := compute(ctx, made(slow), func() { close(done) })
	<-done
	if e, ok := err.(twirp.Error); !ok || e.Code() != twirp.Aborted || e.Msg() != "the plan was not ready after 1s" || asked != 3 {
		t.Errorf("%v after %d of 100 shards", err, asked)
	}
	goOn, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel = context.WithCancelCause(t.Context())
	stuck := &slowStrategy{func() {
		cancel(errors.New("the plan was not ready after 2s"))
		<-goOn
	}}
	_, err = compute(ctx, made(stuck), func() { close(ended) })
	if e, ok := err.(twirp.Error); !ok || e.Code() != twirp.Aborted || e.Msg() != "the plan was not ready after 2s" {
		t.Errorf("the strategy does not end: %v", err)
	}
	select {
	case <-ended:
		t.Error("the plan has ended before its strategy")
	default:
	}
	close(goOn)
	<-ended
}

// slowStrategy calls a function for each requested shard.
type slowStrategy struct{ asked func() }

func (s *slowStrategy) Allocate(v allocation.View, _ sharding.ShardID) sharding.NodeID {
	s.asked()
	return v.Regions[0].Node
}

func (s *slowStrategy) Rebalance(allocation.View, []sharding.ShardID) []sharding.ShardID { return nil }

// TestToPlan: regions are called by their names, or addresses, and their shards of all types count.
func TestToPlan(t *testing.T) {
	a, b, c := sharding.NodeID{Addr: "a:1", UID: 1}, sharding.NodeID{Addr: "b:1", UID: 2}, sharding.NodeID{Addr: "c:1", UID: 3}
	shard := func(typ sharding.EntityType, i uint32) sharding.ShardID { return sharding.ShardID{Type: typ, Index: i} }
	view := func(typ sharding.EntityType) allocation.TypePlan {
		return allocation.TypePlan{View: allocation.View{Type: typ, Regions: []allocation.Region{
			{Node: a, Name: "r", Status: allocation.Leaving, Shards: []sharding.ShardID{shard(typ, 0), shard(typ, 1)}}, {Node: b, Cordoned: true, Capacity: 3, Total: 2}, {Node: c, Name: "s", Capacity: 3, Total: 2},
		}}}
	}
	p := coordinator.Proposal{Input: allocation.PlanInput{Types: []allocation.TypePlan{view("T"), view("U")}}, HeldBack: []string{"wait"}}
	got := toPlan(p, []allocation.Move{
		{Shard: shard("T", 1), From: a, To: b, Reason: allocation.ReasonLeave, Broken: allocation.BrokenPin | allocation.BrokenZone},
	}, []sharding.ShardID{shard("U", 0)})
	want := &adminv1.PlanResponse{
		Moves:    []*adminv1.PlannedMove{{Type: "T", Index: 1, From: "r", To: "b:1", Reason: "leave", Broken: "pin zone"}},
		Unplaced: []*adminv1.UnplacedShard{{Type: "U", Index: 0, Region: "r"}},
		Regions:  []*adminv1.PlannedRegion{{Region: "b:1", After: 1, Cordoned: true, Full: true}, {Region: "r", Before: 4, After: 3, Leaves: true}, {Region: "s"}},
		HeldBack: []string{"wait"},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
