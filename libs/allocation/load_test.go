package allocation_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
)

// newLoaded is a cluster with the strategy's defaults.
func newLoaded(t *testing.T, shards, regions int) *allocationtest.Loaded {
	return allocationtest.NewLoaded(leastLoad(t), shards, regions)
}

func leastLoad(t *testing.T) allocation.LeastLoad {
	return strategy(t, allocation.NameLoad).(allocation.LeastLoad)
}

func moveLoads(t *testing.T, l *allocationtest.Loaded) []allocation.Move {
	t.Helper()
	moves, err := l.Balance()
	if err != nil {
		t.Fatal(err)
	}
	return moves
}

// TestZipf: the load of shards is distributed by Zipf's law, and each region has equally
// many of them. The rounds of a minute bring the busiest region down to the tolerance, or to
// its hottest shard alone, and move little more than the load that is too much.
func TestZipf(t *testing.T) {
	worst := 0.0
	for seed := range uint64(20) {
		s := leastLoad(t)
		s.Weights = allocation.Weights{} // only processor time counts, and what a move costs
		z, err := allocationtest.RunZipf(seed, s, 1024, 8, 10)
		if err != nil {
			t.Fatal(err)
		}
		if !z.Alone {
			t.Errorf("seed %d: a region has %.2f of the average, the hottest shard %.2f", seed, z.After, z.Hottest)
		}
		worst = max(worst, z.Moved/z.Excess)
		if z.Moved > 1.3*z.Excess {
			t.Errorf("seed %d: %.2f of the average moved, in %d moves, and %.2f were too much", seed, z.Moved, z.Moves, z.Excess)
		}
	}
	t.Logf("at most %.2f of the load that was too much has moved", worst)
}

// TestLoadRules: what is cooling stays, a region that has too much is brought below what is
// tolerated, one that has less is left alone, and shards with fewer entities move first.
func TestLoadRules(t *testing.T) {
	l := newLoaded(t, 200, 2)
	set := func(factor float64) {
		for s := range l.Loads {
			l.Owner[s] = s % 2
			l.Loads[s] = allocation.ShardLoad{Load: allocation.Load{Processors: 0.1, Entities: 10}}
			if s%2 == 0 {
				l.Loads[s].Processors = 0.1 * factor
			}
			if s < 20 {
				l.Loads[s].Entities = 100_000
			}
		}
	}
	l.Strategy.Weights = allocation.Weights{}
	set(1.2) // 1.09 of the average
	if moves := moveLoads(t, l); moves != nil {
		t.Errorf("within the tolerance, %+v moves", moves)
	}
	set(1.5) // 1.2
	moves := moveLoads(t, l)
	if of, mean := l.Cost(); of[0] > 1.06*mean || of[0] < 1.04*mean {
		t.Errorf("brought down to %.3f of the average", of[0]/mean)
	}
	for _, m := range moves {
		if m.Shard.Index < 20 || m.Reason != allocation.ReasonLoad {
			t.Errorf("%+v: shards with fewer entities are there", m)
		}
	}
	set(1.5)
	for s := range l.Loads {
		l.Loads[s].Cooling = s > 30
	}
	for _, m := range moveLoads(t, l) {
		if m.Shard.Index > 30 {
			t.Errorf("%+v is cooling", m)
		}
	}
	set(1.5)
	l.Strategy.Floor = 10 // processors
	if moves := moveLoads(t, l); moves != nil {
		t.Errorf("below the floor, %+v moves", moves)
	}
	l.Strategy.Floor = 0
	l.Strategy.MoveMiB = 3
	for s := range l.Loads {
		l.Loads[s].Bytes = 1 << 20
	}
	if moves := moveLoads(t, l); len(moves) != 3 {
		t.Errorf("%d MiB move, at most 3 are allowed", len(moves))
	}
	v := l.View()
	v.ShardLoads = nil
	if moves := l.Strategy.Rebalance(v, nil); moves != nil {
		t.Errorf("without loads, %v moves", moves)
	}
}

// TestHottestShard: the hottest shard stays, and the others leave it alone. Two hot ones part.
func TestHottestShard(t *testing.T) {
	l := newLoaded(t, 40, 4)
	l.Strategy.Weights = allocation.Weights{}
	for s := range l.Loads {
		l.Loads[s].Processors = 0.01
	}
	l.Loads[0].Processors, l.Loads[4].Processors = 3, 1
	for range 5 {
		moveLoads(t, l)
	}
	if l.Owner[0] == l.Owner[4] || l.Owner[0] != 0 {
		t.Errorf("the hottest shards are at %d and %d", l.Owner[0], l.Owner[4])
	}
	for s := 1; s < 40; s++ {
		if l.Owner[s] == 0 {
			t.Errorf("shard %d is still with the hottest", s)
		}
	}
}

// TestSine: shards do not follow a load that comes and goes. Without the cool-down and the
// hysteresis they would.
func TestSine(t *testing.T) {
	const shards, regions, cooldown = 1024, 8, 60
	run := func(seed uint64, s allocation.LeastLoad, cooldown int) allocationtest.Sine {
		got, err := allocationtest.RunSine(seed, s, shards, regions, cooldown)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("moves per period %v, at most %d of one shard, busiest region %.2f", got.PerPeriod, got.Most, got.Worst)
		return got
	}
	for seed := range uint64(6) {
		if got := run(seed, leastLoad(t), cooldown); !got.Steady(shards) {
			t.Errorf("seed %d: moves per period %v, at most %d of one shard", seed, got.PerPeriod, got.Most)
		}
		if seed > 1 {
			continue
		}
		s := leastLoad(t)
		s.Hysteresis = 0
		if control := run(seed, s, 0); control.Steady(shards) {
			t.Errorf("without cool-down and hysteresis the moves per period are %v, at most %d of one shard: the load tests nothing", control.PerPeriod, control.Most)
		}
	}
}

// TestMoveMiB: the size of entities on the move is bounded over all rounds, and a single shard may move
// whatever its size.
func TestMoveMiB(t *testing.T) {
	v := allocationtest.Counts(8, 0)
	v.ShardLoads = make([]allocation.ShardLoad, 8)
	for i := range v.ShardLoads {
		v.ShardLoads[i].Load = allocation.Load{Processors: 1, Bytes: 600 << 20}
		v.Regions[0].Load = v.Regions[0].Load.Plus(v.ShardLoads[i].Load)
	}
	s := leastLoad(t) // of 1024 MiB
	large := s.Rebalance(v, nil)
	if len(large) != 1 {
		t.Fatalf("of shards of 600 MiB, %v move", large)
	}
	if more := s.Rebalance(v, large); len(more) > 0 {
		t.Errorf("while %v is on the move, %v moves too", large, more)
	}
	v.ShardLoads[large[0].Index].Bytes = 400 << 20
	if more := s.Rebalance(v, large); len(more) != 1 {
		t.Errorf("while a shard of 400 MiB is on the move, %v moves too", more)
	}
	for i := range v.ShardLoads {
		v.ShardLoads[i].Bytes = 2 << 30
	}
	if more := s.Rebalance(v, nil); len(more) != 1 {
		t.Errorf("of shards of 2 GiB, %v move", more)
	}
}
