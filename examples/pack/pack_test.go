package pack_test

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/examples/pack"
	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestConformance is the test that every strategy needs.
func TestConformance(t *testing.T) {
	for _, perRegion := range []int{1, 25, 60} {
		allocationtest.Run(t, pack.Strategy{PerRegion: perRegion}, nil)
	}
}

func TestPacks(t *testing.T) {
	s := pack.Strategy{PerRegion: 10}
	for _, c := range []struct{ before, after []int }{
		{[]int{5, 5, 5}, []int{10, 5, 0}},
		{[]int{0, 0, 7}, []int{7, 0, 0}},
		{[]int{12, 3, 0}, []int{10, 5, 0}},
		{[]int{15, 15, 0}, []int{10, 10, 10}},
		{[]int{40, 0, 0}, []int{14, 14, 12}}, // all are full
	} {
		v := allocationtest.Counts(c.before...)
		for moves := s.Rebalance(v, nil); len(moves) > 0; moves = s.Rebalance(v, nil) {
			v = allocationtest.Move(t, s, v, moves)
		}
		var after []int
		for _, r := range v.Regions {
			after = append(after, len(r.Shards))
		}
		if !slices.Equal(after, c.after) {
			t.Errorf("%v becomes %v, want %v", c.before, after, c.after)
		}
	}
}

// TestGoesByName: the order of the view does not matter, nor does what a region was called
// before it was restarted.
func TestGoesByName(t *testing.T) {
	v := allocationtest.Counts(0, 0, 0)
	v.Regions[0].Name, v.Regions[1].Name, v.Regions[2].Name = "c", "a", "b"
	v.Regions[1].Status = allocation.Leaving
	s := pack.Strategy{PerRegion: 10}
	if got := s.Allocate(v, sharding.ShardID{Type: "T"}); got != v.Regions[2].Node {
		t.Errorf("a shard goes to %v, want the region b", got)
	}
}
