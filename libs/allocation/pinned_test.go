package allocation_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestPinnedStay: of the shards of a region that has more than its capacity, those that are pinned to it go
// last, also if only another type, which is planned later, has others.
func TestPinnedStay(t *testing.T) {
	shards := func(typ sharding.EntityType, n uint32) (list []sharding.ShardID) {
		for i := range n {
			list = append(list, sharding.ShardID{Type: typ, Index: i})
		}
		return list
	}
	a, b := sharding.NodeID{Addr: "a:1", UID: 1}, sharding.NodeID{Addr: "b:1", UID: 2}
	full := shards("A", 3)
	pins := map[sharding.ShardID]string{full[0]: "a", full[1]: "a", full[2]: "a"}
	for capacity := 2; capacity <= 4; capacity++ {
		in := allocation.PlanInput{Budget: 100}
		for _, list := range [][]sharding.ShardID{full, shards("B", 2)} {
			in.Types = append(in.Types, allocation.TypePlan{
				View: allocation.View{Type: list[0].Type, Pins: pins, Regions: []allocation.Region{
					{Node: a, Name: "a", Capacity: capacity, Total: 5, Shards: list}, {Node: b, Name: "b"},
				}},
				Strategy: strategy(t, allocation.NameExternal),
			})
		}
		moves := allocation.Plan(in)
		if err := allocation.CheckPlan(in, moves); err != nil {
			t.Error(err)
		}
		pinned := 0
		for _, m := range moves {
			if m.Reason != allocation.ReasonCapacity || m.From != a || m.To != b {
				t.Errorf("capacity %d: %+v", capacity, m)
			}
			if m.Shard.Type == "A" {
				pinned++
			}
		}
		if len(moves) != 5-capacity || pinned != max(0, 3-capacity) {
			t.Errorf("capacity %d: %d moves, %d of them of pinned shards: %+v", capacity, len(moves), pinned, moves)
		}
	}
}
