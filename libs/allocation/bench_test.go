package allocation_test

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// BenchmarkPlan plans 75,000 shards of one type on 1,000 regions in three zones; every
// tenth region has just come and has none; with load, the shards' loads differ by Zipf's law.
// All moves are planned at once; with consistent hashing, where nearly all shards are in the
// wrong place, 7,500 of them.
func BenchmarkPlan(b *testing.B) {
	const shards, regions = 75_000, 1000
	for _, name := range []string{allocation.NameLeastShards, allocation.NameConsistentHashing, allocation.NameLoad} {
		b.Run(name, func(b *testing.B) {
			cfg := allocation.DefaultConfig()
			cfg.Strategy, cfg.AbsoluteLimit, cfg.RelativeLimit, cfg.LoadMoveMiB = name, math.MaxInt, 1, math.MaxInt32
			if name == allocation.NameConsistentHashing {
				cfg.AbsoluteLimit = shards / 10
			}
			s, err := allocation.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			v := allocationtest.Large(1, shards, regions)
			in := allocation.PlanInput{Types: []allocation.TypePlan{{View: v, Strategy: s}}, Budget: math.MaxInt}
			b.ReportAllocs()
			moves := 0
			for b.Loop() {
				moves = len(allocation.Plan(in))
			}
			b.ReportMetric(float64(moves), "moves")
		})
	}
}

// settled are clusters in which nothing moves, but each shard is looked at: it is not enough to compare
// numbers.
var settled = map[string]func(b testing.TB, shards, regions int) allocation.TypePlan{
	"consistent-hashing": func(b testing.TB, shards, regions int) allocation.TypePlan {
		s := allocation.ConsistentHashing{VirtualNodes: 100, AbsoluteLimit: 256}
		v := allocationtest.Counts(make([]int, regions)...)
		for i := range shards {
			id := sharding.ShardID{Type: "T", Index: uint32(i)}
			to := s.Allocate(v, id)
			r := &v.Regions[slices.IndexFunc(v.Regions, func(r allocation.Region) bool { return r.Node == to })]
			r.Shards = append(r.Shards, id)
			r.Total++
		}
		return allocation.TypePlan{View: v, Strategy: s}
	},
	"pinned to a region that is not here": func(b testing.TB, shards, regions int) allocation.TypePlan {
		v := evenly(shards, regions)
		v.Pins = map[sharding.ShardID]string{}
		for i := range shards {
			v.Pins[sharding.ShardID{Type: "T", Index: uint32(i)}] = "away"
		}
		return allocation.TypePlan{View: v, Strategy: strategy(b, allocation.NameExternal)}
	},
	"all regions are full": func(b testing.TB, shards, regions int) allocation.TypePlan {
		v := evenly(shards, regions)
		for i := range v.Regions {
			v.Regions[i].Capacity = 1
		}
		return allocation.TypePlan{View: v, Strategy: strategy(b, allocation.NameLeastShards)}
	},
}

// evenly returns a view of shards that are distributed evenly.
func evenly(shards, regions int) allocation.View {
	counts := make([]int, regions)
	for i := range shards {
		counts[i%regions]++
	}
	return allocationtest.Counts(counts...)
}

// BenchmarkPlanNothing plans for few regions with many shards that are already in the right place.
func BenchmarkPlanNothing(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(settled)) {
		for _, shards := range []int{4096, 10_000, 40_000} {
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(name, " ", "-"), shards), func(b *testing.B) {
				in := allocation.PlanInput{Types: []allocation.TypePlan{settled[name](b, shards, 10)}, Budget: 256}
				b.ReportAllocs()
				for b.Loop() {
					if moves := allocation.Plan(in); moves != nil {
						b.Fatalf("%d moves", len(moves))
					}
				}
			})
		}
	}
}

// namesAll is a strategy that names all shards.
type namesAll struct{ allocation.LeastShards }

func (namesAll) Rebalance(v allocation.View, _ []sharding.ShardID) (list []sharding.ShardID) {
	for i := range v.Regions {
		list = append(list, v.Regions[i].Shards...)
	}
	return list
}

// BenchmarkPlanAllNamed plans with a strategy that names all shards of two regions; a third one has come.
func BenchmarkPlanAllNamed(b *testing.B) {
	v := allocation.View{Type: "T"}
	for i := range 3 {
		v.Regions = append(v.Regions, allocation.Region{Node: sharding.NodeID{Addr: fmt.Sprintf("r%d:1", i), UID: 1}})
	}
	for i := range uint32(sharding.MaxShards) {
		r := &v.Regions[i%2]
		r.Shards, r.Total = append(r.Shards, sharding.ShardID{Type: v.Type, Index: i}), r.Total+1
	}
	in := allocation.PlanInput{Types: []allocation.TypePlan{{View: v, Strategy: namesAll{}}}, Budget: 256}
	for b.Loop() {
		if moves := allocation.Plan(in); len(moves) != in.Budget {
			b.Fatalf("%d moves", len(moves))
		}
	}
}

// TestPlanNothing: to look at a shard that stays takes no copy of its region's list.
func TestPlanNothing(t *testing.T) {
	const shards, perShard = 10_000, 256 // bytes
	for name, make := range settled {
		in := allocation.PlanInput{Types: []allocation.TypePlan{make(t, shards, 2)}, Budget: 256}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		moves := allocation.Plan(in)
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / shards; len(moves) != 0 || got > perShard {
			t.Errorf("%s: %d moves; the plan has allocated %d bytes for each shard", name, len(moves), got)
		}
	}
}

// BenchmarkChoose chooses a region for one shard, as the coordinator does when an owner is
// lost.
func BenchmarkChoose(b *testing.B) {
	for _, regions := range []int{8, 1000} {
		for _, name := range []string{allocation.NameLeastShards, allocation.NameConsistentHashing} {
			b.Run(fmt.Sprintf("%s/%d", name, regions), func(b *testing.B) {
				cfg := allocation.DefaultConfig()
				cfg.Strategy = name
				s, err := allocation.New(cfg)
				if err != nil {
					b.Fatal(err)
				}
				v := allocation.View{Type: "T"}
				for i := range regions {
					v.Regions = append(v.Regions, allocation.Region{Node: node(i), Name: fmt.Sprint("region-", i)})
				}
				b.ReportAllocs()
				for b.Loop() {
					narrowed, _ := allocation.Candidates(v, sharding.ShardID{Type: "T", Index: 3})
					s.Allocate(narrowed, sharding.ShardID{Type: "T", Index: 3})
				}
			})
		}
	}
}
