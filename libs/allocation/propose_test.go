package allocation_test

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestPropose: all shards of a region that leaves go elsewhere, whatever the budget, also when they
// are on the move or the view is not settled. What no other region reads stays, and is said.
func TestPropose(t *testing.T) {
	for _, name := range allocation.Names {
		t.Run(name, func(t *testing.T) {
			view := allocationtest.Counts(4, 4, 4)
			view.Type = "T"
			view.Regions[1].Status = allocation.Leaving
			in := allocation.PlanInput{Types: []allocation.TypePlan{{View: view, Strategy: strategy(t, name)}}}
			moves, unplaced := allocation.Propose(in)
			left := slices.Clone(view.Regions[1].Shards)
			for _, m := range moves {
				if m.From != view.Regions[1].Node || m.Reason != allocation.ReasonLeave {
					t.Errorf("%+v is proposed although the budget is 0", m)
				}
				left = slices.DeleteFunc(left, func(s sharding.ShardID) bool { return s == m.Shard })
			}
			if len(left) > 0 || len(moves) != 4 || len(unplaced) > 0 {
				t.Fatalf("proposed are %+v and unplaced %v: %v stay", moves, unplaced, left)
			}
			in.Budget = len(moves) // which the checker counts them against
			if err := allocation.CheckPlan(in, moves); err != nil {
				t.Error(err)
			}
			in.Types[0].InFlight = view.Regions[1].Shards[:1]
			in.Types[0].View.Unsettled = true
			if moves, _ := allocation.Propose(in); len(moves) != 4 {
				t.Errorf("of a cluster that is not settled, %+v", moves)
			}
			if moves := allocation.Plan(in); len(moves) != 0 {
				t.Errorf("planned are %+v", moves)
			}
			for i := range view.Regions {
				view.Regions[i].Status = allocation.Leaving
			}
			if moves, unplaced = allocation.Propose(in); len(moves) != 0 || len(unplaced) != 12 {
				t.Errorf("without any region, %+v, and unplaced are %v", moves, unplaced)
			}
		})
	}
}

// TestAbandoned: a plan without a waiting caller ends at once.
func TestAbandoned(t *testing.T) {
	view := func() allocation.View {
		v := allocation.View{Type: "T", Regions: []allocation.Region{{Node: sharding.NodeID{Addr: "a:1", UID: 1}, Status: allocation.Leaving}, {Node: sharding.NodeID{Addr: "b:1", UID: 2}}, {Node: sharding.NodeID{Addr: "c:1", UID: 3}}}}
		for i := range uint32(100) {
			v.Regions[i%2].Shards = append(v.Regions[i%2].Shards, sharding.ShardID{Type: "T", Index: i})
		}
		return v
	}
	for _, after := range []int{0, 3, 60} {
		asked := 0
		in := allocation.PlanInput{Types: []allocation.TypePlan{{View: view(), Strategy: allocation.LeastShards{RelativeLimit: 1, AbsoluteLimit: 1000}}}, Budget: 1000, Abandoned: func() bool {
			asked++
			return asked > after
		}}
		if moves, _ := allocation.Propose(in); len(moves) > after {
			t.Errorf("abandoned after %d moves, the plan has %d", after, len(moves))
		}
	}
}
