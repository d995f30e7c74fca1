package allocation_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestWaitingEnds: commands wait, and garbage is collected, wherever there is most work, and shards do not change
// places for that forever. Nothing moves in the second half of the plans, and on average no shard moves twice.
func TestWaitingEnds(t *testing.T) {
	const plans, seeds = 120, 60
	moves, moved, better := 0, 0, 0
	for seed := range uint64(seeds) {
		s := leastLoad(t)
		s.Weights.GC = float64(seed % 2)
		if seed%3 == 2 {
			s.Hysteresis = 0 // each move must be better anyway
		}
		got, err := allocationtest.RunWaiting(seed, s, plans)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Last > plans/2 || got.Moves > 2*got.Shards {
			t.Errorf("seed %d: %d moves of %d shards, the last one in plan %d of %d", seed, got.Moves, got.Shards, got.Last, plans)
		}
		if got.After > got.Before+1e-9 {
			t.Errorf("seed %d: the busiest region had %.2f of the average work, and has %.2f", seed, got.Before, got.After)
		}
		moves += got.Moves
		moved += toInt(got.Moves > 0)
		better += toInt(got.After < 0.9*got.Before)
	}
	t.Logf("%d moves; of %d clusters, %d moved shards, and %d became much better", moves, seeds, moved, better)
	if moved < seeds/2 || better < seeds/3 {
		t.Errorf("only %d clusters moved shards, and %d became much better", moved, better)
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestProcessors: the load of a region is divided by its processors.
func TestProcessors(t *testing.T) {
	l := newLoaded(t, 100, 2)
	l.Strategy.Weights = allocation.Weights{}
	l.Processors = []allocation.Processors{{All: 1}, {All: 4}}
	for i := range l.Loads {
		l.Loads[i].Processors = 0.02
	}
	for range 5 {
		moveLoads(t, l)
	}
	if of, _ := l.Cost(); of[0] > 0.451 || of[0] < 0.36 {
		t.Errorf("of 2 processors of load, 0.4 belong to the smaller region, and it has %.2f", of[0])
	}
	// A shard goes where the load per processor is the lowest with it, not without it.
	v := allocation.View{Type: "T", Regions: make([]allocation.Region, 2), ShardLoads: []allocation.ShardLoad{{Load: allocation.Load{Processors: 1}}}}
	for i := range v.Regions {
		v.Regions[i].Node = allocationtest.Node(i)
	}
	v.Regions[0].Processors.All, v.Regions[1].Processors.All = 1, 8
	v.Regions[1].Load.Processors = 1
	if to := l.Strategy.Allocate(v, sharding.ShardID{Type: "T"}); to != allocationtest.Node(1) {
		t.Errorf("a shard of a whole processor goes to %v", to)
	}
}

// TestDivisor: every region can be compared, whatever it reports.
func TestDivisor(t *testing.T) {
	w := allocation.Weights{GC: 1}
	for p, want := range map[allocation.Processors]float64{
		{}: 1, {All: -1}: 1, {All: 8}: 8, {All: 8, GC: 0.25}: 6, {All: 8, GC: 0.9}: 4, {All: 8, GC: 4e6}: 4, {GC: 1}: 0.5,
	} { // order-free
		if got := w.Divisor(p); got != want {
			t.Errorf("%+v: %v, want %v", p, got, want)
		}
	}
	if got := (allocation.Weights{}).Divisor(allocation.Processors{All: 8, GC: 0.5}); got != 8 {
		t.Errorf("garbage collection counts although its weight is 0: %v", got)
	}
	if w := allocation.DefaultConfig().Weights(); w.Waiting == 0 || w.GC != 0 {
		t.Errorf("the default weights are %+v", w)
	}
}

// TestWaitingRelieves: of two regions within the tolerance, shards leave the one whose commands wait.
func TestWaitingRelieves(t *testing.T) {
	moves := func(weight float64) (n int) {
		l := newLoaded(t, 100, 2)
		l.Strategy.Weights = allocation.Weights{Waiting: weight}
		for i := range l.Loads {
			l.Loads[i].Processors = 0.02
			if l.Owner[i] == 0 {
				l.Loads[i].Load = allocation.Load{Processors: 0.0235, Waiting: 0.1}
			}
		}
		for _, m := range moveLoads(t, l) {
			if m.From != allocationtest.Node(0) {
				t.Errorf("%+v", m)
			}
			n++
		}
		return n
	}
	if n := moves(0); n != 0 {
		t.Errorf("within the tolerance, %d shards move", n)
	}
	if n := moves(allocation.DefaultConfig().LoadWaiting); n == 0 {
		t.Error("no shard leaves a region whose commands wait")
	}
}
