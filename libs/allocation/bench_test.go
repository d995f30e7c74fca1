package allocation_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// BenchmarkPlan plans 75,000 shards of one type on 1,000 regions in three zones, of which
// every tenth has just come and has none; with load, the shards' loads differ by Zipf's law.
// All moves are planned at once; with consistent hashing, for which nearly all shards are in
// the wrong place, 7,500 of them.
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
					narrowed, _ := allocation.Candidates(v, sharding.ShardID{Type: "T", Index: 3}, node(1))
					s.Allocate(narrowed, sharding.ShardID{Type: "T", Index: 3})
				}
			})
		}
	}
}
