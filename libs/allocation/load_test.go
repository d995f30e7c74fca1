package allocation_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// loaded is a cluster with one type, whose shards have the load that a test says.
type loaded struct {
	strategy allocation.LeastLoad
	owner    []int // by shard
	loads    []allocation.ShardLoad
	regions  int
}

func newLoaded(t *testing.T, shards, regions int) *loaded {
	l := &loaded{strategy: strategy(t, allocation.NameLoad).(allocation.LeastLoad), regions: regions, loads: make([]allocation.ShardLoad, shards)}
	for i := range shards {
		l.owner = append(l.owner, i%regions)
	}
	return l
}

func (l *loaded) view() allocation.View {
	v := allocation.View{Type: "T", ShardLoads: l.loads, Regions: make([]allocation.Region, l.regions)}
	for i := range v.Regions {
		v.Regions[i].Node = node(i)
	}
	for s, owner := range l.owner {
		r := &v.Regions[owner]
		r.Shards = append(r.Shards, sharding.ShardID{Type: "T", Index: uint32(s)})
		r.Total++
		r.Load = r.Load.Plus(l.loads[s].Load)
	}
	return v
}

// cost is the processor time of the regions: what the tests set.
func (l *loaded) cost() (of []float64, mean float64) {
	of = make([]float64, l.regions)
	for s, owner := range l.owner {
		of[owner] += l.loads[s].Processors
		mean += l.loads[s].Processors / float64(l.regions)
	}
	return of, mean
}

// balance plans once and makes the moves.
func (l *loaded) balance(t *testing.T) []allocation.Move {
	in := allocation.PlanInput{Types: []allocation.TypePlan{{View: l.view(), Strategy: l.strategy}}, Budget: math.MaxInt}
	moves := allocation.Plan(in)
	if err := allocation.CheckPlan(in, moves); err != nil {
		t.Fatal(err)
	}
	for _, m := range moves {
		l.owner[m.Shard.Index] = int(m.To.UID) - 1
	}
	return moves
}

// TestZipf: the load of shards is distributed by Zipf's law, and each region has equally
// many of them. The rounds of a minute bring the busiest region down to the tolerance, or to
// its hottest shard alone, and move little more than the load that is too much.
func TestZipf(t *testing.T) {
	const shards, regions = 1024, 8
	worst := 0.0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := newLoaded(t, shards, regions)
		l.strategy.Weights = allocation.Weights{} // only processor time counts, and what a move costs
		hottest := 0.0
		for rank, s := range rng.Perm(shards) {
			load := 4 / float64(rank+1)
			l.loads[s].Load = allocation.Load{Processors: load, Entities: 1000 * rng.ExpFloat64(), Bytes: 1e6 * rng.ExpFloat64()}
			hottest = max(hottest, load)
		}
		before, mean := l.cost()
		excess, moved, moves := 0.0, 0.0, 0
		for _, c := range before {
			excess += max(0, c-1.1*mean)
		}
		for range 10 {
			for _, m := range l.balance(t) {
				moved += l.loads[m.Shard.Index].Processors
				l.loads[m.Shard.Index].Cooling = true
				moves++
			}
		}
		after, _ := l.cost()
		for region, c := range after {
			if c > 1.1*mean && c > hottest {
				t.Errorf("seed %d: region %d has %.2f of the average, the hottest shard %.2f", seed, region, c/mean, hottest/mean)
			}
		}
		worst = max(worst, moved/excess)
		if moved > 1.3*excess {
			t.Errorf("seed %d: %.2f of the average moved, in %d moves, and %.2f were too much", seed, moved/mean, moves, excess/mean)
		}
	}
	t.Logf("at most %.2f of the load that was too much has moved", worst)
}

// sine is what a cluster has moved under a load that comes and goes.
type sine struct {
	perPeriod []int // moves
	most      int   // of one shard
	worst     float64
}

// TestLoadRules: what is cooling stays, a region that has too much is brought below what is
// tolerated, one that has less is left alone, and shards with fewer entities move first.
func TestLoadRules(t *testing.T) {
	l := newLoaded(t, 200, 2)
	set := func(factor float64) {
		for s := range l.loads {
			l.owner[s] = s % 2
			l.loads[s] = allocation.ShardLoad{Load: allocation.Load{Processors: 0.1, Entities: 10}}
			if s%2 == 0 {
				l.loads[s].Processors = 0.1 * factor
			}
			if s < 20 {
				l.loads[s].Entities = 100_000
			}
		}
	}
	l.strategy.Weights = allocation.Weights{}
	set(1.2) // 1.09 of the average
	if moves := l.balance(t); moves != nil {
		t.Errorf("within the tolerance, %+v moves", moves)
	}
	set(1.5) // 1.2
	moves := l.balance(t)
	if of, mean := l.cost(); of[0] > 1.06*mean || of[0] < 1.04*mean {
		t.Errorf("brought down to %.3f of the average", of[0]/mean)
	}
	for _, m := range moves {
		if m.Shard.Index < 20 || m.Reason != allocation.ReasonLoad {
			t.Errorf("%+v: shards with fewer entities are there", m)
		}
	}
	set(1.5)
	for s := range l.loads {
		l.loads[s].Cooling = s > 30
	}
	for _, m := range l.balance(t) {
		if m.Shard.Index > 30 {
			t.Errorf("%+v is cooling", m)
		}
	}
	set(1.5)
	l.strategy.Floor = 10 // processors
	if moves := l.balance(t); moves != nil {
		t.Errorf("below the floor, %+v moves", moves)
	}
	l.strategy.Floor = 0
	l.strategy.MoveMiB = 3
	for s := range l.loads {
		l.loads[s].Bytes = 1 << 20
	}
	if moves := l.balance(t); len(moves) != 3 {
		t.Errorf("%d MiB move, at most 3 are allowed", len(moves))
	}
	v := l.view()
	v.ShardLoads = nil
	if moves := l.strategy.Rebalance(v, nil); moves != nil {
		t.Errorf("without loads, %v moves", moves)
	}
}

// TestHottestShard: the hottest shard stays, and the others leave it alone. Two hot ones part.
func TestHottestShard(t *testing.T) {
	l := newLoaded(t, 40, 4)
	l.strategy.Weights = allocation.Weights{}
	for s := range l.loads {
		l.loads[s].Processors = 0.01
	}
	l.loads[0].Processors, l.loads[4].Processors = 3, 1
	for range 5 {
		l.balance(t)
	}
	if l.owner[0] == l.owner[4] || l.owner[0] != 0 {
		t.Errorf("the hottest shards are at %d and %d", l.owner[0], l.owner[4])
	}
	for s := 1; s < 40; s++ {
		if l.owner[s] == 0 {
			t.Errorf("shard %d is still with the hottest", s)
		}
	}
}

// runSine gives each shard a load that follows a sine, with phases that differ from shard to
// shard. A shard's load is reported with some noise.
func runSine(t *testing.T, rng *rand.Rand, l *loaded, cooldown int) sine {
	const periods, length = 6, 60 // plans per period
	base, phase := make([]float64, len(l.owner)), make([]float64, len(l.owner))
	for s := range l.owner {
		base[s] = 0.005 + rng.ExpFloat64()/40
		phase[s] = 2 * math.Pi * rng.Float64()
	}
	moved := make([]int, len(l.owner)) // the plan at which the shard moved last
	for s := range moved {
		moved[s] = -cooldown
	}
	var got sine
	times := make([]int, len(l.owner))
	for period := range periods {
		moves := 0
		for step := range length {
			now := period*length + step
			at := 2 * math.Pi * float64(step) / length
			for s := range l.owner {
				load := base[s] * (1 + 0.9*math.Sin(at+phase[s])) * (1 + 0.05*rng.NormFloat64())
				l.loads[s] = allocation.ShardLoad{Load: allocation.Load{Processors: load}, Cooling: now-moved[s] < cooldown}
			}
			for _, m := range l.balance(t) {
				moved[m.Shard.Index] = now
				moves++
				times[m.Shard.Index]++
				got.most = max(got.most, times[m.Shard.Index])
			}
			if of, mean := l.cost(); period > 0 {
				for _, c := range of {
					got.worst = max(got.worst, c/mean)
				}
			}
		}
		got.perPeriod = append(got.perPeriod, moves)
	}
	return got
}

// steady reports whether at most a fiftieth of the shards moves per period after the first
// one, and none of them more than twice.
func (s sine) steady(shards int) bool {
	for _, n := range s.perPeriod[1:] {
		if n > shards/50 {
			return false
		}
	}
	return s.most <= 2
}

// TestSine: shards do not follow a load that comes and goes. Without the cool-down and the
// hysteresis they would.
func TestSine(t *testing.T) {
	const shards, regions, cooldown = 1024, 8, 60
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 0))
		got := runSine(t, rng, newLoaded(t, shards, regions), cooldown)
		t.Logf("moves per period %v, at most %d of one shard, busiest region %.2f", got.perPeriod, got.most, got.worst)
		if !got.steady(shards) {
			t.Errorf("seed %d: moves per period %v, at most %d of one shard", seed, got.perPeriod, got.most)
		}
		if seed > 1 {
			continue
		}
		l := newLoaded(t, shards, regions)
		l.strategy.Hysteresis = 0
		control := runSine(t, rng, l, 0)
		t.Logf("without cool-down and hysteresis %v, at most %d, %.2f", control.perPeriod, control.most, control.worst)
		if control.steady(shards) {
			t.Errorf("without cool-down and hysteresis the moves per period are %v, at most %d of one shard: the load tests nothing", control.perPeriod, control.most)
		}
	}
}
