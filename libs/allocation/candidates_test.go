package allocation_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

func names(v allocation.View) []string {
	var list []string
	for _, r := range v.Regions {
		list = append(list, r.Name)
	}
	return list
}

// TestPrecedence: a constraint gives way to those before it, and only to them.
func TestPrecedence(t *testing.T) {
	shard := sharding.ShardID{Type: "T", Index: 5}
	base := []allocation.Region{
		{Node: node(0), Name: "a", Zone: "x"}, {Node: node(1), Name: "b", Zone: "x"}, {Node: node(2), Name: "c", Zone: "y"},
	}
	for _, test := range []struct {
		name   string
		change func(r []allocation.Region, v *allocation.View)
		want   []string
		broken allocation.Broken
	}{
		{"none", func([]allocation.Region, *allocation.View) {}, []string{"a", "b", "c"}, 0},
		{"zone", func(r []allocation.Region, _ *allocation.View) {
			r[2].Shards = []sharding.ShardID{{Type: "T"}}
		}, []string{"a", "b"}, 0},
		{"cordon before zone", func(r []allocation.Region, _ *allocation.View) {
			r[2].Shards = []sharding.ShardID{{Type: "T"}}
			r[0].Cordoned, r[1].Cordoned = true, true
		}, []string{"c"}, allocation.BrokenZone},
		{"all cordoned", func(r []allocation.Region, _ *allocation.View) {
			r[0].Cordoned, r[1].Cordoned, r[2].Cordoned = true, true, true
		}, []string{"a", "b", "c"}, allocation.BrokenCordon},
		{"pin before cordon and zone", func(r []allocation.Region, v *allocation.View) {
			r[2].Shards, r[2].Cordoned = []sharding.ShardID{{Type: "T"}}, true
			v.Pins = map[sharding.ShardID]string{shard: "c"}
		}, []string{"c"}, allocation.BrokenCordon | allocation.BrokenZone},
		{"pin to a region that is not here", func(_ []allocation.Region, v *allocation.View) {
			v.Pins = map[sharding.ShardID]string{shard: "d"}
		}, []string{"a", "b", "c"}, allocation.BrokenPin},
		{"capacity before pin", func(r []allocation.Region, v *allocation.View) {
			r[2].Capacity, r[2].Total = 7, 7
			v.Pins = map[sharding.ShardID]string{shard: "c"}
		}, []string{"a", "b"}, allocation.BrokenPin},
		{"all full", func(r []allocation.Region, v *allocation.View) {
			for i := range r {
				r[i].Capacity, r[i].Total = 7, 7
			}
			v.Pins = map[sharding.ShardID]string{shard: "c"}
		}, []string{"c"}, allocation.BrokenCapacity},
		{"what cannot be read", func(r []allocation.Region, v *allocation.View) {
			r[0].Reads = sharding.FormSet("").With(3)
			v.Forms = make([]sharding.FormSet, 6)
			v.Forms[5] = sharding.FormSet("").With(3)
			r[0].Capacity, r[0].Total, r[0].Cordoned = 1, 1, true
		}, []string{"a"}, allocation.BrokenCapacity | allocation.BrokenCordon},
		{"nobody", func(r []allocation.Region, v *allocation.View) {
			for i := range r {
				r[i].Status = allocation.Leaving
			}
		}, nil, 0},
	} {
		v := allocation.View{Type: "T", Regions: slices.Clone(base)}
		test.change(v.Regions, &v)
		got, broken := allocation.Candidates(v, shard)
		if !slices.Equal(names(got), test.want) || broken != test.broken {
			t.Errorf("%s: %v, broken: %v; want %v, broken: %v", test.name, names(got), broken, test.want, test.broken)
		}
	}
}

// TestZoneIsLost: the loss of a zone takes no more of a type than its share, rounded up,
// whatever the strategy; by the number of regions, by their capacity, or by both if only some of them
// say their capacity. It is so after the
// first allocation, and again after regions have gone and come and all plans are carried out.
func TestZoneIsLost(t *testing.T) {
	rng := seeded(t)
	for range 300 {
		name := allocation.Names[rng.IntN(len(allocation.Names))]
		z := &zoned{name: name, strategy: strategy(t, name), shards: 1 + rng.IntN(200)}
		z.capacities, z.some = rng.IntN(3) == 0, rng.IntN(2) == 0
		for range 3 + rng.IntN(12) {
			z.join(rng)
		}
		z.view.Type = "T"
		z.view.ShardLoads = make([]allocation.ShardLoad, z.shards)
		for i := range z.shards {
			z.view.ShardLoads[i].Processors = rng.ExpFloat64()
			z.allocate(t, sharding.ShardID{Type: "T", Index: uint32(i)})
		}
		z.check(t)
		for range 3 {
			gone := rng.IntN(len(z.view.Regions))
			shards := z.view.Regions[gone].Shards
			z.view.Regions = slices.Delete(z.view.Regions, gone, gone+1)
			z.join(rng)
			for _, s := range shards {
				z.allocate(t, s)
			}
		}
		for rounds := 0; z.balance(t); rounds++ {
			if rounds > 500 {
				t.Fatalf("%s: still moving", name)
			}
		}
		z.check(t)
	}
}

// zoned is a cluster in zones with one type.
type zoned struct {
	name       string
	strategy   allocation.Strategy
	view       allocation.View
	shards     int
	capacities bool // all regions say theirs
	some       bool // otherwise, some of them do
	joined     int
}

// join lets a region come.
func (z *zoned) join(rng *rand.Rand) {
	zone := z.joined
	if z.joined > 2 {
		zone = rng.IntN(3)
	}
	r := allocation.Region{Node: node(z.joined), Name: fmt.Sprint("region-", z.joined), Zone: fmt.Sprint("zone-", zone)}
	z.joined++
	if z.capacities {
		r.Capacity = z.shards + rng.IntN(5*z.shards)
	} else if z.some && rng.IntN(2) == 0 && slices.ContainsFunc(z.view.Regions, func(r allocation.Region) bool { return r.Capacity == 0 }) {
		r.Capacity = 1 + rng.IntN(1+z.shards/2)
	}
	z.view.Regions = append(z.view.Regions, r)
}

func (z *zoned) allocate(t *testing.T, s sharding.ShardID) {
	narrowed, broken := allocation.Candidates(z.view, s)
	if broken != 0 {
		t.Fatalf("%s: %v breaks %v", z.name, s, broken)
	}
	z.put(s, z.strategy.Allocate(narrowed, s), 1)
}

// put adds a shard to a region, or takes it away.
func (z *zoned) put(s sharding.ShardID, at sharding.NodeID, by int) {
	for i := range z.view.Regions {
		if r := &z.view.Regions[i]; r.Node == at {
			r.Total += by
			if load := z.view.ShardLoads[s.Index].Load; by > 0 {
				r.Shards, r.Load = append(r.Shards, s), r.Load.Plus(load)
			} else {
				r.Shards, r.Load = slices.DeleteFunc(r.Shards, func(o sharding.ShardID) bool { return o == s }), r.Load.Minus(load)
			}
		}
	}
}

// balance carries out a plan, and reports whether something moved.
func (z *zoned) balance(t *testing.T) bool {
	in := allocation.PlanInput{Budget: 50, Types: []allocation.TypePlan{{View: z.view, Strategy: z.strategy}}}
	plan := allocation.Plan(in)
	if err := allocation.CheckPlan(in, plan); err != nil {
		t.Fatal(err)
	}
	for _, m := range plan {
		z.put(m.Shard, m.From, -1)
		z.put(m.Shard, m.To, 1)
	}
	return len(plan) > 0
}

// check compares what each zone has with its share.
func (z *zoned) check(t *testing.T) {
	has, room, all := map[string]int{}, map[string]float64{}, 0
	level := z.level()
	for _, r := range z.view.Regions {
		has[r.Zone] += len(r.Shards)
		all += len(r.Shards)
		switch {
		case z.capacities:
			room[r.Zone] += float64(r.Capacity) * level
		case r.Capacity > 0:
			room[r.Zone] += min(float64(r.Capacity), level)
		default:
			room[r.Zone] += level
		}
		if r.Capacity > 0 && len(r.Shards) > r.Capacity {
			t.Errorf("%s: %s has %d shards, its capacity is %d", z.name, r.Name, len(r.Shards), r.Capacity)
		}
	}
	for zone, n := range has {
		if share := int(math.Ceil(room[zone] - 1e-6)); n > share {
			t.Errorf("%s: %s has %d of %d shards, its share is %d", z.name, zone, n, z.shards, share)
		}
	}
	if all != z.shards {
		t.Errorf("%s: %d of %d shards are somewhere", z.name, all, z.shards)
	}
}

// level is the number that gives all regions together room for all shards, found by halving: the part
// of their capacities, if all have one, or the most shards of each.
func (z *zoned) level() float64 {
	low, high := 0.0, float64(z.shards)
	for range 100 {
		level, room := (low+high)/2, 0.0
		for _, r := range z.view.Regions {
			switch {
			case z.capacities:
				room += float64(r.Capacity) * level
			case r.Capacity > 0:
				room += min(float64(r.Capacity), level)
			default:
				room += level
			}
		}
		if room < float64(z.shards) {
			low = level
		} else {
			high = level
		}
	}
	return high
}

// TestManySmallTypes: types with one shard each do not meet on one region, whether the view
// counts what regions have of other types or not.
func TestManySmallTypes(t *testing.T) {
	const types, regions = 60, 6
	for _, counted := range []bool{true, false} {
		v := allocation.View{}
		for i := range regions {
			v.Regions = append(v.Regions, allocation.Region{Node: node(i)})
		}
		has := make([]int, regions)
		for i := range types {
			v.Type = sharding.EntityType(fmt.Sprint("Type", i))
			to := strategy(t, allocation.NameLeastShards).Allocate(v, sharding.ShardID{Type: v.Type})
			has[to.UID-1]++
			if counted {
				v.Regions[to.UID-1].Total++
			}
		}
		if most := slices.Max(has); counted && most != types/regions || most > types/2 {
			t.Errorf("%d types with one shard each are spread as %v", types, has)
		}
	}
}
