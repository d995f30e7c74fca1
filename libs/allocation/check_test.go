package allocation_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// able reports whether a region of a random cluster can serve a shard.
func able(v allocation.View, r allocation.Region, s sharding.ShardID) bool {
	return r.Status == allocation.Up && r.Reads.Contains(v.Forms[s.Index])
}

// free reports whether a region can take a shard and breaks no constraint but perhaps the
// zone's.
func free(v allocation.View, r allocation.Region, s sharding.ShardID) bool {
	return able(v, r, s) && r.Capacity == 0 && !r.Cordoned && (v.Pins[s] == "" || v.Pins[s] == r.Name)
}

// plants are the ways in which the first move of a plan can be wrong, with the checker's
// finding. Each returns a wrong move of the type, if it finds one: of a shard of a region
// to another region.
var plants = map[string]struct {
	says  string
	wrong func(v allocation.View, m allocation.Move, from, to allocation.Region) bool
}{
	"status": {"is leaving", func(v allocation.View, m allocation.Move, from, to allocation.Region) bool {
		return to.Status == allocation.Leaving
	}},
	"forms": {"does not read form", func(v allocation.View, m allocation.Move, from, to allocation.Region) bool {
		return to.Status == allocation.Up && !to.Reads.Contains(v.Forms[m.Shard.Index])
	}},
	"capacity": {"the constraint capacity", func(v allocation.View, m allocation.Move, from, to allocation.Region) bool {
		return able(v, to, m.Shard) && to.Capacity > 0 && to.Total >= to.Capacity &&
			slices.ContainsFunc(v.Regions, func(r allocation.Region) bool { return able(v, r, m.Shard) && r.Capacity == 0 })
	}},
	"pin": {"the constraint pin", func(v allocation.View, m allocation.Move, from, to allocation.Region) bool {
		pin := v.Pins[m.Shard]
		return pin != "" && able(v, to, m.Shard) && to.Capacity == 0 && to.Name != pin &&
			slices.ContainsFunc(v.Regions, func(r allocation.Region) bool {
				return r.Name == pin && able(v, r, m.Shard) && r.Capacity == 0
			})
	}},
	"cordon": {"the constraint cordon", func(v allocation.View, m allocation.Move, from, to allocation.Region) bool {
		return able(v, to, m.Shard) && to.Cordoned && to.Capacity == 0 && v.Pins[m.Shard] == "" &&
			slices.ContainsFunc(v.Regions, func(r allocation.Region) bool { return free(v, r, m.Shard) })
	}},
	"zone": {"the constraint zone", func(v allocation.View, m allocation.Move, from, to allocation.Region) bool {
		inZone, up, all, regions := 0, 0.0, 0, 0.0
		empty := map[string]bool{}
		for _, r := range v.Regions {
			all += len(r.Shards)
			empty[r.Zone] = (empty[r.Zone] || !slices.ContainsFunc(v.Regions, func(o allocation.Region) bool { return o.Zone == r.Zone && len(o.Shards) > 0 }))
			if r.Status != allocation.Up {
				continue
			}
			if r.Capacity > 0 {
				return false // shares by capacity are tried elsewhere
			}
			regions++
			if r.Zone == to.Zone {
				up++
				inZone += len(r.Shards)
			}
		}
		return free(v, to, m.Shard) && to.Zone != from.Zone && float64(inZone) > float64(all)*up/regions &&
			slices.ContainsFunc(v.Regions, func(r allocation.Region) bool { return free(v, r, m.Shard) && empty[r.Zone] })
	}},
}

// TestPlantedViolations: whatever is wrong with a move of an otherwise good plan is found.
func TestPlantedViolations(t *testing.T) {
	rng := seeded(t)
	planted := map[string]int{}
	for range 4000 {
		c := newCluster(rng, options{maxRegions: 8, maxShards: 24, constraints: true, strategies: allocation.Names})
		in := c.input(t, 1000)
		plan := allocation.Plan(in)
		for _, tp := range in.Types {
			for name, p := range plants {
				if m, found := plant(rng, tp, p.wrong); found {
					planted[name]++
					for _, err := range []error{
						allocation.CheckMove(tp.View, m),
						allocation.CheckPlan(in, append([]allocation.Move{m}, plan...)),
					} {
						if !errors.Is(err, allocation.ErrMove) || !strings.Contains(err.Error(), p.says) {
							t.Fatalf("%s: the checker says %v of %+v in %+v", name, err, m, tp.View)
						}
					}
				}
			}
		}
		plantInPlan(t, in, plan, planted)
	}
	t.Logf("planted %v", planted)
	for name := range plants {
		if planted[name] < 20 {
			t.Errorf("%s was planted %d times", name, planted[name])
		}
	}
}

// TestCheckLoad: a move because of load is refused if the shard has just come, or if nothing is
// known of loads.
func TestCheckLoad(t *testing.T) {
	shard := sharding.ShardID{Type: "T"}
	v := allocation.View{Type: "T", Regions: []allocation.Region{{Node: node(1), Shards: []sharding.ShardID{shard}}, {Node: node(2)}}}
	m := allocation.Move{Shard: shard, From: node(1), To: node(2), Reason: allocation.ReasonLoad}
	for _, c := range []struct {
		loads []allocation.ShardLoad
		says  string // empty: it is allowed
	}{
		{nil, "too little is known"},
		{[]allocation.ShardLoad{{}}, ""},
		{[]allocation.ShardLoad{{Cooling: true}}, "the cool-down"},
	} {
		v.ShardLoads = c.loads
		if err := allocation.CheckMove(v, m); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("with the loads %v: %v", c.loads, err)
		}
	}
	v.ShardLoads, m.Reason = nil, allocation.ReasonBalance
	if err := allocation.CheckMove(v, m); err != nil {
		t.Errorf("a move for balance: %v", err)
	}
}

// TestCheckReason: a move that repairs a constraint is refused if the owner keeps the constraint, or the
// new region breaks it too.
func TestCheckReason(t *testing.T) {
	for _, reason := range []allocation.Reason{allocation.ReasonPin, allocation.ReasonCapacity, allocation.ReasonZone} {
		for _, c := range []struct {
			name   string
			broken func(*allocation.View, sharding.ShardID)
			gone   bool
		}{
			{"nothing is broken", func(*allocation.View, sharding.ShardID) {}, true},
			{"the owner breaks it", func(v *allocation.View, s sharding.ShardID) {
				switch v.Pins = map[sharding.ShardID]string{s: "region-1"}; reason {
				case allocation.ReasonCapacity:
					v.Regions[0].Capacity = 2
				case allocation.ReasonZone:
					v.Regions[0].Zone = "a"
				}
			}, false},
			{"both break it", func(v *allocation.View, s sharding.ShardID) {
				switch v.Pins = map[sharding.ShardID]string{s: "region-7"}; reason {
				case allocation.ReasonCapacity:
					v.Regions[0].Capacity, v.Regions[1].Capacity = 2, 2
				case allocation.ReasonZone:
					v.Regions[0].Zone, v.Regions[1].Zone = "a", "a"
				}
			}, true},
		} {
			v := allocationtest.Counts(4, 2)
			if reason == allocation.ReasonZone {
				v = allocationtest.Counts(4, 2, 0)
			}
			s := v.Regions[0].Shards[1]
			c.broken(&v, s)
			m := allocation.Move{Shard: s, From: v.Regions[0].Node, To: v.Regions[1].Node, Reason: reason}
			if err := allocation.CheckMove(v, m); (err != nil) != c.gone || c.gone && !strings.Contains(err.Error(), "its reason is gone") {
				t.Errorf("%v, and %s: %v", reason, c.name, err)
			}
		}
	}
}

// TestPrefers: a move for balance or load makes sense as long as the strategy chooses the new region
// rather than the owner.
func TestPrefers(t *testing.T) {
	loads := func(v allocation.View) allocation.View { prepare[allocation.NameLoad](&v); return v }
	full := allocationtest.Counts(1, 9)
	full.Regions[0].Capacity, full.Regions[0].Total = 1, 2
	for name, c := range map[string]struct {
		strategy allocation.Strategy
		view     allocation.View
		want     bool
	}{
		"fewer":              {strategy(t, allocation.NameLeastShards), allocationtest.Counts(9, 1), true},
		"more":               {strategy(t, allocation.NameLeastShards), allocationtest.Counts(1, 9), false},
		"a third is better":  {strategy(t, allocation.NameLeastShards), allocationtest.Counts(9, 1, 0), true},
		"less load":          {strategy(t, allocation.NameLoad), loads(allocationtest.Counts(9, 1)), true},
		"more load":          {strategy(t, allocation.NameLoad), loads(allocationtest.Counts(1, 9)), false},
		"the owner is full":  {strategy(t, allocation.NameLeastShards), full, true},
		"the owner is gone":  {strategy(t, allocation.NameLeastShards), allocation.View{Regions: allocationtest.Counts(9, 1).Regions[1:]}, false},
		"the target is gone": {strategy(t, allocation.NameLeastShards), allocation.View{Regions: allocationtest.Counts(9, 1).Regions[:1]}, false},
		"it is not there":    {strategy(t, allocation.NameLeastShards), allocationtest.Counts(0, 1), false},
		"all regions count":  {byNumber{}, allocationtest.Counts(9, 9, 9), true},
		"with fewer regions": {byNumber{}, allocationtest.Counts(9, 9), false},
	} {
		m := allocation.Move{Shard: sharding.ShardID{Type: "T"}, From: allocationtest.Node(0), To: allocationtest.Node(1)}
		before := allocationtest.Clone(c.view)
		if got := allocation.Prefers(c.strategy, c.view, m); got != c.want || !reflect.DeepEqual(c.view, before) {
			t.Errorf("%s: %t, want %t; the view is then %+v", name, got, c.want, c.view)
		}
	}
}

// byNumber allocates to the second of three regions, and to the first of two.
type byNumber struct{ allocation.Strategy }

func (byNumber) Allocate(v allocation.View, _ sharding.ShardID) sharding.NodeID {
	return v.Regions[len(v.Regions)/3].Node
}

// TestExternalMovesToPins: the strategy moves a shard to nowhere but where it is pinned.
func TestExternalMovesToPins(t *testing.T) {
	v := allocationtest.Counts(3, 2, 0)
	v.Regions[1].Capacity = 2
	s := v.Regions[0].Shards[0]
	v.Pins = map[sharding.ShardID]string{s: "region-1"}
	in := allocation.PlanInput{Budget: 10, Types: []allocation.TypePlan{{View: v, Strategy: strategy(t, allocation.NameExternal)}}}
	if plan := allocation.Plan(in); len(plan) > 0 {
		t.Errorf("the region is full, and planned is %+v", plan)
	}
	v.Regions[1].Capacity = 3
	if plan := allocation.Plan(in); len(plan) != 1 || plan[0].Shard != s || plan[0].To != v.Regions[1].Node || plan[0].Reason != allocation.ReasonPin {
		t.Errorf("planned %+v", plan)
	}
}

// plant returns a move that is wrong.
func plant(rng *rand.Rand, tp allocation.TypePlan, wrong func(allocation.View, allocation.Move, allocation.Region, allocation.Region) bool) (allocation.Move, bool) {
	var found []allocation.Move
	for _, from := range tp.View.Regions {
		for _, s := range from.Shards {
			for _, to := range tp.View.Regions {
				m := allocation.Move{Shard: s, From: from.Node, To: to.Node}
				if from.Node != to.Node && !slices.Contains(tp.InFlight, s) && wrong(tp.View, m, from, to) {
					found = append(found, m)
				}
			}
		}
	}
	if len(found) == 0 {
		return allocation.Move{}, false
	}
	return found[rng.IntN(len(found))], true
}

// plantInPlan makes a good plan wrong as a whole.
func plantInPlan(t *testing.T, in allocation.PlanInput, plan []allocation.Move, planted map[string]int) {
	if len(plan) == 0 {
		return
	}
	first := plan[0]
	wrong := map[string]func() (allocation.PlanInput, []allocation.Move){
		"the budget is": func() (allocation.PlanInput, []allocation.Move) {
			of := in
			of.Budget = len(plan) - 1
			return of, plan
		},
		"it has moved before": func() (allocation.PlanInput, []allocation.Move) {
			back := allocation.Move{Shard: first.Shard, From: first.To, To: first.From}
			return in, append(slices.Clone(plan), back)
		},
		"it is there already": func() (allocation.PlanInput, []allocation.Move) {
			first.To = first.From
			return in, []allocation.Move{first}
		},
		"is not there any more": func() (allocation.PlanInput, []allocation.Move) {
			return in, []allocation.Move{{Shard: plan[0].Shard, From: plan[0].To, To: plan[0].From}}
		},
		"is not here": func() (allocation.PlanInput, []allocation.Move) {
			return in, []allocation.Move{{Shard: plan[0].Shard, From: plan[0].From, To: node(77)}}
		},
		"on the move already": func() (allocation.PlanInput, []allocation.Move) {
			of := in
			of.Types = slices.Clone(in.Types)
			for i := range of.Types {
				of.Types[i].InFlight = append(slices.Clone(of.Types[i].InFlight), plan[0].Shard)
			}
			return of, plan
		},
		"not settled": func() (allocation.PlanInput, []allocation.Move) {
			of := in
			of.Types = slices.Clone(in.Types)
			for i := range of.Types {
				of.Types[i].View.Unsettled = true
			}
			return of, plan
		},
		"is not planned": func() (allocation.PlanInput, []allocation.Move) {
			other := plan[0]
			other.Shard.Type = "Other"
			return in, []allocation.Move{other}
		},
	}
	for says, make := range wrong {
		of, moves := make()
		planted[says]++
		if err := allocation.CheckPlan(of, moves); !errors.Is(err, allocation.ErrMove) || !strings.Contains(err.Error(), says) {
			t.Fatalf("the checker says %v, want %q", err, says)
		}
	}
}

// TestNothingGained: a shard that exceeds the capacity of its region stays if all others are
// full too.
func TestNothingGained(t *testing.T) {
	v := allocation.View{Type: "T"}
	for i, n := range []int{4, 2, 2} {
		r := allocation.Region{Node: node(i), Capacity: 1, Total: n}
		for s := range n {
			r.Shards = append(r.Shards, sharding.ShardID{Type: "T", Index: uint32(10*i + s)})
		}
		v.Regions = append(v.Regions, r)
	}
	in := allocation.PlanInput{Budget: 9, Types: []allocation.TypePlan{{View: v, Strategy: strategy(t, allocation.NameExternal)}}}
	if plan := allocation.Plan(in); plan != nil {
		t.Errorf("planned %+v", plan)
	}
	in.Types[0].View.Regions[2].Capacity = 3
	if plan := allocation.Plan(in); len(plan) != 1 || plan[0].To != node(2) || plan[0].Reason != allocation.ReasonCapacity || plan[0].Broken != 0 {
		t.Errorf("planned %+v", plan)
	}
}

// TestUnreachable: the checker refuses a move to a region that a detector suspects. No plan
// is made then, because the view is not settled.
func TestUnreachable(t *testing.T) {
	v := allocation.View{Type: "T", Regions: []allocation.Region{
		{Node: node(0), Shards: []sharding.ShardID{{Type: "T"}}}, {Node: node(1), Unreachable: true}, {Node: node(2), Status: allocation.Joining},
	}}
	if plan := allocation.Plan(allocation.PlanInput{Budget: 1, Types: []allocation.TypePlan{{View: v, Strategy: allocation.External{}}}}); plan != nil {
		t.Errorf("planned %+v", plan)
	}
	if got, broken := allocation.Candidates(v, sharding.ShardID{Type: "T", Index: 1}); len(got.Regions) != 1 || got.Regions[0].Node != node(0) || broken != 0 {
		t.Errorf("candidates are %+v, %v broken", got.Regions, broken)
	}
}
