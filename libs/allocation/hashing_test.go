package allocation_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// hashed allocates all shards of a type.
func hashed(s allocation.ConsistentHashing, of sharding.EntityType, shards int, names []string) allocation.View {
	v := allocation.View{Type: of}
	for i, name := range names {
		v.Regions = append(v.Regions, allocation.Region{Node: node(i), Name: name})
	}
	for i := range shards {
		id := sharding.ShardID{Type: of, Index: uint32(i)}
		give(v, id, s.Allocate(v, id))
	}
	return v
}

func give(v allocation.View, id sharding.ShardID, to sharding.NodeID) {
	for i := range v.Regions {
		if r := &v.Regions[i]; r.Node == to {
			r.Shards = append(r.Shards, id)
			r.Total++
		}
	}
}

func numberedNames(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint("region-", i))
	}
	return list
}

// TestCoLocation: shards with the same index are at the same region, whatever their type and
// however many others there are.
func TestCoLocation(t *testing.T) {
	s := strategy(t, allocation.NameConsistentHashing).(allocation.ConsistentHashing)
	s.BoundedLoad = 0
	carts, orders := hashed(s, "Cart", 300, numberedNames(7)), hashed(s, "Order", 1024, numberedNames(7))
	for i, r := range carts.Regions {
		for _, c := range r.Shards {
			if !slices.Contains(orders.Regions[i].Shards, sharding.ShardID{Type: "Order", Index: c.Index}) {
				t.Fatalf("%v is at %s, and the shard of orders with this index is not", c, r.Name)
			}
		}
	}
	// The bound gives types with equally many shards the same places too.
	s.BoundedLoad = 0.05
	carts, orders = hashed(s, "Cart", 300, numberedNames(7)), hashed(s, "Order", 300, numberedNames(7))
	for i, r := range carts.Regions {
		if len(r.Shards) != len(orders.Regions[i].Shards) {
			t.Errorf("%s has %d and %d shards", r.Name, len(r.Shards), len(orders.Regions[i].Shards))
		}
	}
}

// TestHashBound: no region gets more than the bound, and shards that are allocated one by
// one are already where a rebalance wants them, so that nothing moves.
func TestHashBound(t *testing.T) {
	rng := seeded(t)
	for range 100 {
		shards, regions := 1+rng.IntN(500), 1+rng.IntN(20)
		s := allocation.ConsistentHashing{VirtualNodes: 1 + rng.IntN(50), BoundedLoad: []float64{0, 0.01, 0.25, 1}[rng.IntN(4)], AbsoluteLimit: math.MaxInt}
		v := hashed(s, "T", shards, numberedNames(regions))
		for _, r := range v.Regions {
			if most := int(math.Ceil((1 + s.BoundedLoad) * float64(shards) / float64(regions))); s.BoundedLoad > 0 && len(r.Shards) > most {
				t.Fatalf("%s has %d of %d shards, at most %d are allowed", r.Name, len(r.Shards), shards, most)
			}
		}
		if moves := s.Rebalance(v, nil); s.BoundedLoad == 0 && len(moves) > 0 {
			t.Fatalf("moves %v", moves)
		}
	}
}

// TestFewMove: a region that comes takes its part from the others, and nothing moves among
// these.
func TestFewMove(t *testing.T) {
	s := strategy(t, allocation.NameConsistentHashing).(allocation.ConsistentHashing)
	s.BoundedLoad, s.AbsoluteLimit = 0, math.MaxInt
	const shards, regions = 2000, 9
	v := hashed(s, "T", shards, numberedNames(regions))
	v.Regions = append(v.Regions, allocation.Region{Node: node(regions), Name: "new"})
	in := allocation.PlanInput{Budget: math.MaxInt, Types: []allocation.TypePlan{{View: v, Strategy: s}}}
	plan := allocation.Plan(in)
	for _, m := range plan {
		if m.To != node(regions) {
			t.Fatalf("%+v, and only %v is new", m, node(regions))
		}
	}
	if fair := shards / (regions + 1); len(plan) < fair/2 || len(plan) > fair*2 {
		t.Errorf("%d of %d shards move to one of %d regions", len(plan), shards, regions+1)
	}
}
