package allocationtest

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Loaded is a cluster with one type, whose shards have the loads that its user sets.
type Loaded struct {
	Strategy allocation.LeastLoad
	Owner    []int                  // by shard: the index of the region
	Loads    []allocation.ShardLoad // by shard
	Regions  int
	// Processors has the number of processors of each region; nil: it is not known.
	Processors []allocation.Processors
}

// NewLoaded returns a cluster whose regions have equally many shards, without any load.
func NewLoaded(s allocation.LeastLoad, shards, regions int) *Loaded {
	l := &Loaded{Strategy: s, Regions: regions, Loads: make([]allocation.ShardLoad, shards)}
	for i := range shards {
		l.Owner = append(l.Owner, i%regions)
	}
	return l
}

// View returns the view for the strategy.
func (l *Loaded) View() allocation.View {
	v := allocation.View{Type: "T", ShardLoads: l.Loads, Regions: make([]allocation.Region, l.Regions)}
	for i := range v.Regions {
		v.Regions[i].Node = Node(i)
		if l.Processors != nil {
			v.Regions[i].Processors = l.Processors[i]
		}
	}
	for s, owner := range l.Owner {
		put(&v.Regions[owner], uint32(s), l.Loads[s].Load)
	}
	return v
}

// Cost is the processor time of each region, and their average.
func (l *Loaded) Cost() (of []float64, mean float64) {
	of = make([]float64, l.Regions)
	for s, owner := range l.Owner {
		of[owner] += l.Loads[s].Processors
		mean += l.Loads[s].Processors / float64(l.Regions)
	}
	return of, mean
}

// Balance plans once and makes the moves. It returns an error if the plan breaks a rule.
func (l *Loaded) Balance() ([]allocation.Move, error) {
	in := allocation.PlanInput{Types: []allocation.TypePlan{{View: l.View(), Strategy: l.Strategy}}, Budget: math.MaxInt}
	moves := allocation.Plan(in)
	if err := allocation.CheckPlan(in, moves); err != nil {
		return nil, err
	}
	for _, m := range moves {
		l.Owner[m.Shard.Index] = int(m.To.UID) - 1
	}
	return moves, nil
}

// Zipf holds the result of rounds of moves for a load that is distributed by Zipf's law. All loads
// are parts of the average load of a region.
type Zipf struct {
	Before, After float64 // the busiest region
	Hottest       float64 // the hottest shard
	Excess        float64 // the load above 1.1 times the average, of all regions, before
	Moved         float64
	Moves         int
	// Alone is true if no region above 1.1 times the average is above the hottest shard.
	Alone bool
}

// RunZipf gives shards loads by Zipf's law with exponent 1, in a random order, and balances
// for as many rounds. No shard moves twice.
func RunZipf(seed uint64, s allocation.LeastLoad, shards, regions, rounds int) (Zipf, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	l := NewLoaded(s, shards, regions)
	hottest := 0.0
	for rank, i := range rng.Perm(shards) {
		load := 4 / float64(rank+1)
		l.Loads[i].Load = allocation.Load{Processors: load, Entities: 1000 * rng.ExpFloat64(), Bytes: 1e6 * rng.ExpFloat64()}
		hottest = max(hottest, load)
	}
	before, mean := l.Cost()
	z := Zipf{Hottest: hottest / mean, Alone: true}
	for _, c := range before {
		z.Before = max(z.Before, c/mean)
		z.Excess += max(0, c/mean-1.1)
	}
	for range rounds {
		moves, err := l.Balance()
		if err != nil {
			return z, err
		}
		for _, m := range moves {
			z.Moved += l.Loads[m.Shard.Index].Processors / mean
			l.Loads[m.Shard.Index].Cooling = true
		}
		z.Moves += len(moves)
	}
	after, _ := l.Cost()
	for _, c := range after {
		z.After = max(z.After, c/mean)
		z.Alone = z.Alone && (c <= 1.1*mean || c <= hottest)
	}
	return z, nil
}

// Sine holds the moves of a cluster under a load that comes and goes.
type Sine struct {
	PerPeriod []int   // moves
	Most      int     // of one shard
	Worst     float64 // the busiest region after the first period, as part of the average
}

// RunSine gives each shard a load that follows a sine, with a phase of its own, and plans 60
// times in each of six periods. Loads are reported with some noise. A shard that has moved is
// cooling for as many plans.
func RunSine(seed uint64, s allocation.LeastLoad, shards, regions, cooldown int) (Sine, error) {
	const periods, length = 6, 60
	rng := rand.New(rand.NewPCG(seed, 0))
	l := NewLoaded(s, shards, regions)
	base, phase := make([]float64, shards), make([]float64, shards)
	for i := range shards {
		base[i] = 0.005 + rng.ExpFloat64()/40
		phase[i] = 2 * math.Pi * rng.Float64()
	}
	moved := make([]int, shards) // the plan at which the shard moved last
	for i := range moved {
		moved[i] = -cooldown
	}
	var got Sine
	times := make([]int, shards)
	for now := range periods * length {
		if now%length == 0 {
			got.PerPeriod = append(got.PerPeriod, 0)
		}
		at := 2 * math.Pi * float64(now) / length
		for i := range shards {
			load := base[i] * (1 + 0.9*math.Sin(at+phase[i])) * (1 + 0.05*rng.NormFloat64())
			l.Loads[i] = allocation.ShardLoad{Load: allocation.Load{Processors: load}, Cooling: now-moved[i] < cooldown}
		}
		moves, err := l.Balance()
		if err != nil {
			return got, err
		}
		for _, m := range moves {
			moved[m.Shard.Index] = now
			got.PerPeriod[now/length]++
			times[m.Shard.Index]++
			got.Most = max(got.Most, times[m.Shard.Index])
		}
		if of, mean := l.Cost(); now >= length {
			for _, c := range of {
				got.Worst = max(got.Worst, c/mean)
			}
		}
	}
	return got, nil
}

// Steady reports whether at most a fiftieth of the shards moves per period after the first
// one, and none of them more than twice.
func (s Sine) Steady(shards int) bool {
	for _, n := range s.PerPeriod[1:] {
		if n > shards/50 {
			return false
		}
	}
	return s.Most <= 2
}

// Waiting holds the moves of a cluster whose commands wait, and whose garbage is collected, wherever there is most
// work.
type Waiting struct {
	Moves, Shards int
	Last          int     // the last plan that moved a shard, counted from 1; 0: none did
	Before, After float64 // the work of the busiest region per processor, as part of the average
}

// RunWaiting gives shards and regions random loads and numbers of processors, and plans so many times. The number of
// commands that wait at a region follows from the utilisation of its processors, as in a queue with random arrivals
// and at most 1,000 places for each processor. They wait for the shards in proportion to their work, also of some
// shards in front of one busy entity. Garbage collection follows from the utilisation too. No shard is cooling.
func RunWaiting(seed uint64, s allocation.LeastLoad, plans int) (Waiting, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	regions := 2 + rng.IntN(7)
	l := NewLoaded(s, regions*(1+rng.IntN(40)), regions)
	l.Processors = make([]allocation.Processors, regions)
	processors, work, sum, hot := 0.0, make([]float64, len(l.Loads)), 0.0, make([]float64, len(l.Loads))
	alike := rng.IntN(2) == 0
	for i := range l.Processors {
		if l.Processors[i].All = 1 << rng.IntN(5); alike {
			l.Processors[i].All = l.Processors[0].All
		}
		processors += float64(l.Processors[i].All)
	}
	for i := range work {
		work[i] = math.Exp(2 * rng.NormFloat64())
		sum += work[i]
		if rng.IntN(20) == 0 {
			hot[i] = 1000 * rng.Float64()
		}
		l.Owner[i] = rng.IntN(regions)
	}
	utilisation := 0.3 + rng.Float64() // of all regions together
	for i := range work {
		work[i] *= utilisation * processors / sum
	}
	garbage := rng.Float64() // the part of the work that collects garbage
	busiest := func() (most float64) {
		for _, u := range utilised(l, work) {
			most = max(most, u/utilisation)
		}
		return most
	}
	got := Waiting{Before: busiest(), Shards: len(work)}
	for plan := range plans {
		used := utilised(l, work)
		for i := range l.Processors {
			l.Processors[i].GC = min(1, garbage*used[i])
		}
		for i, owner := range l.Owner {
			u, of := used[owner], float64(l.Processors[owner].All)
			queue := 1000 * of
			if u < 1 {
				queue = min(queue, u*u/(1-u))
			}
			load := allocation.Load{Processors: work[i], Waiting: hot[i] + queue*work[i]/(u*of)}
			load.Waiting = min(load.Waiting, 10*work[i]) // as sharding.Load.Counted
			l.Loads[i].Load = load
		}
		moves, err := l.Balance()
		if err != nil {
			return got, err
		}
		if len(moves) > 0 {
			got.Moves, got.Last = got.Moves+len(moves), plan+1
		}
	}
	got.After = busiest()
	return got, nil
}

// utilised returns the work of each region per processor.
func utilised(l *Loaded, work []float64) []float64 {
	of := make([]float64, l.Regions)
	for i, owner := range l.Owner {
		of[owner] += work[i] / float64(l.Processors[owner].All)
	}
	return of
}

// Large returns a view of many shards on many regions in three zones. Every tenth region has just
// come and has none. The loads of shards differ by Zipf's law.
func Large(seed uint64, shards, regions int) allocation.View {
	rng := rand.New(rand.NewPCG(seed, 0))
	v := allocation.View{Type: "T", ShardLoads: make([]allocation.ShardLoad, shards)}
	for i := range regions {
		v.Regions = append(v.Regions, allocation.Region{
			Node: sharding.NodeID{Addr: "region:" + strconv.Itoa(i), UID: sharding.NodeUID(i + 1)},
			Name: "region-" + strconv.Itoa(i), Zone: "zone-" + strconv.Itoa(i%3),
		})
	}
	for rank, i := range rng.Perm(shards) {
		v.ShardLoads[i].Load = allocation.Load{Processors: 20 / float64(100+rank), Entities: 1000 * rng.Float64(), Bytes: 1e6 * rng.Float64()}
	}
	for i := range shards {
		at := rng.IntN(regions)
		for at%10 == 9 {
			at = rng.IntN(regions)
		}
		put(&v.Regions[at], uint32(i), v.ShardLoads[i].Load)
	}
	return v
}

// put gives a region of a view one more shard.
func put(r *allocation.Region, shard uint32, load allocation.Load) {
	r.Shards = append(r.Shards, sharding.ShardID{Type: "T", Index: shard})
	r.Total++
	r.Load = r.Load.Plus(load)
}
