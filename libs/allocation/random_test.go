package allocation_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

var seedFlag = flag.Uint64("seed", 0, "run random tests with this seed alone")

// seeded runs a test with a random generator, and prints how to repeat it if it fails.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: go test ./libs/allocation -run '^%s$' -seed %d", t.Name(), seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func node(i int) sharding.NodeID {
	return sharding.NodeID{Addr: fmt.Sprintf("10.0.0.%d:25520", i), UID: sharding.NodeUID(i + 1)}
}

// cluster is a random cluster with all that placement knows of.
type cluster struct {
	regions []allocation.Region // without what differs by type
	types   []clusterType
}

type clusterType struct {
	name     sharding.EntityType
	strategy string
	shards   int
	reads    []sharding.FormSet // by region
	hosts    []bool             // by region
	forms    []sharding.FormSet // by shard
	pins     map[sharding.ShardID]string
	loads    []allocation.ShardLoad
	owner    []int // by shard; -1: no region
	moving   map[sharding.ShardID]bool
}

// options bounds a random cluster.
type options struct {
	maxRegions, maxShards int
	constraints           bool
	strategies            []string
}

func newCluster(rng *rand.Rand, o options) *cluster {
	c := &cluster{}
	zones := 1 + rng.IntN(4)
	allSay := rng.IntN(2) == 0 // all regions say their capacity, or some of them
	for i := range 1 + rng.IntN(o.maxRegions) {
		r := allocation.Region{Node: node(i), Name: fmt.Sprint("region-", i)}
		if o.constraints {
			r.Zone = fmt.Sprint("zone-", rng.IntN(zones))
			r.Cordoned = rng.IntN(6) == 0
			if allSay || rng.IntN(4) == 0 {
				r.Capacity = 1 + rng.IntN(2*o.maxShards)
			}
			if rng.IntN(10) == 0 {
				r.Status = allocation.Leaving
			}
		}
		c.regions = append(c.regions, r)
	}
	for range 1 + rng.IntN(3) {
		c.addType(rng, o)
	}
	return c
}

func (c *cluster) addType(rng *rand.Rand, o options) {
	t := clusterType{
		name: sharding.EntityType(fmt.Sprint("Type", len(c.types))), strategy: o.strategies[rng.IntN(len(o.strategies))],
		shards: 1 + rng.IntN(o.maxShards), pins: map[sharding.ShardID]string{}, moving: map[sharding.ShardID]bool{},
	}
	versions := 1 + rng.IntN(2)
	for range c.regions {
		t.hosts = append(t.hosts, rng.IntN(5) > 0)
		reads := sharding.FormSet("").With(0)
		if !o.constraints || rng.IntN(3) > 0 {
			reads = reads.With(1)
		}
		t.reads = append(t.reads, reads)
	}
	skew := rng.IntN(3) // how unequal the shards are at first
	for i := range t.shards {
		id := sharding.ShardID{Type: t.name, Index: uint32(i)}
		t.forms = append(t.forms, sharding.FormSet("").With(rng.IntN(versions)))
		load := allocation.Load{Processors: rng.ExpFloat64() / 10, Commands: 1000 * rng.Float64(), Entities: 100 * rng.Float64(), Bytes: 1e6 * rng.Float64()}
		t.loads = append(t.loads, allocation.ShardLoad{Load: load, Cooling: rng.IntN(10) == 0})
		if o.constraints && rng.IntN(12) == 0 {
			t.pins[id] = c.regions[rng.IntN(len(c.regions))].Name
		}
		owner := rng.IntN(len(c.regions))
		for range skew {
			owner = min(owner, rng.IntN(len(c.regions)))
		}
		if !t.hosts[owner] || !t.reads[owner].Contains(t.forms[i]) || rng.IntN(20) == 0 {
			owner = -1
		}
		t.owner = append(t.owner, owner)
		t.moving[id] = owner >= 0 && t.strategy != allocation.NameLeastShards && rng.IntN(40) == 0
	}
	c.types = append(c.types, t)
}

// view returns the coordinator's view of a type.
func (c *cluster) view(t *clusterType) allocation.View {
	v := allocation.View{Type: t.name, Forms: t.forms, Pins: t.pins, ShardLoads: t.loads}
	total := make([]int, len(c.regions))
	load := make([]allocation.Load, len(c.regions))
	for i := range c.types {
		for s, owner := range c.types[i].owner {
			if owner >= 0 {
				total[owner]++
				load[owner] = load[owner].Plus(c.types[i].loads[s].Load)
			}
		}
	}
	for i, r := range c.regions {
		if !t.hosts[i] {
			continue
		}
		r.Reads, r.Total, r.Load = t.reads[i], total[i], load[i]
		for s, owner := range t.owner {
			if owner == i {
				r.Shards = append(r.Shards, sharding.ShardID{Type: t.name, Index: uint32(s)})
			}
		}
		v.Regions = append(v.Regions, r)
	}
	return v
}

// input holds the arguments of a plan.
func (c *cluster) input(t *testing.T, budget int) allocation.PlanInput {
	t.Helper()
	in := allocation.PlanInput{Budget: budget}
	for i := range c.types {
		ct := &c.types[i]
		p := allocation.TypePlan{View: c.view(ct), Strategy: strategy(t, ct.strategy)}
		for s := range ct.owner {
			if id := (sharding.ShardID{Type: ct.name, Index: uint32(s)}); ct.moving[id] {
				p.InFlight = append(p.InFlight, id)
			}
		}
		in.Types = append(in.Types, p)
	}
	return in
}

// carryOut makes the moves of a plan.
func (c *cluster) carryOut(moves []allocation.Move) {
	for _, m := range moves {
		for i := range c.types {
			if ct := &c.types[i]; ct.name == m.Shard.Type {
				for r := range c.regions {
					if c.regions[r].Node == m.To {
						ct.owner[m.Shard.Index] = r
					}
				}
			}
		}
	}
}

func strategy(t testing.TB, name string) allocation.Strategy {
	t.Helper()
	cfg := allocation.DefaultConfig()
	cfg.Strategy = name
	s, err := allocation.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const instances = 10_000

// TestPlansKeepConstraints: on random clusters with all constraints, the checker, which
// shares no code with the planner, finds nothing in any plan: nothing goes to a region that
// cannot serve it, and a constraint is broken only where no region could serve the
// shard otherwise.
func TestPlansKeepConstraints(t *testing.T) {
	rng := seeded(t)
	moves, broken := 0, 0
	reasons := map[allocation.Reason]int{}
	for range instances {
		c := newCluster(rng, options{maxRegions: 8, maxShards: 24, constraints: true, strategies: allocation.Names})
		in := c.input(t, 1+rng.IntN(100))
		plan := allocation.Plan(in)
		if err := allocation.CheckPlan(in, plan); err != nil {
			t.Fatalf("%v\nof %+v\nin %+v", err, plan, in)
		}
		for _, m := range plan {
			moves++
			reasons[m.Reason]++
			if m.Broken != 0 {
				broken++
			}
		}
	}
	t.Logf("%d moves, %d broke a constraint; reasons %v", moves, broken, reasons)
	if broken == 0 || len(reasons) != 5 {
		t.Errorf("%d moves broke a constraint, and the reasons are %v: the instances test too little", broken, reasons)
	}
}

// TestAllocationsKeepConstraints: the same for shards without a region.
func TestAllocationsKeepConstraints(t *testing.T) {
	rng := seeded(t)
	allocated, broken := 0, 0
	for range instances / 4 {
		c := newCluster(rng, options{maxRegions: 8, maxShards: 12, constraints: true, strategies: allocation.Names})
		for i := range c.types {
			ct := &c.types[i]
			for s, owner := range ct.owner {
				if owner >= 0 {
					continue
				}
				id, v := sharding.ShardID{Type: ct.name, Index: uint32(s)}, c.view(ct)
				if len(v.Regions) == 0 {
					continue
				}
				narrowed, breaks := allocation.Candidates(v, id)
				to := strategy(t, ct.strategy).Allocate(narrowed, id)
				// To the checker, it comes from a region that is about to leave.
				nowhere := allocation.Region{Node: node(99), Status: allocation.Leaving, Shards: []sharding.ShardID{id}}
				v.Regions = append(v.Regions, nowhere)
				move := allocation.Move{Shard: id, From: nowhere.Node, To: to}
				if to.IsZero() {
					// No region may take it: the checker agrees for each of them.
					for _, r := range v.Regions {
						move.To = r.Node
						if allocation.CheckMove(v, move) == nil {
							t.Fatalf("no region is given %v, and %v could serve it: %+v", id, r.Node, v)
						}
					}
					continue
				}
				if err := allocation.CheckMove(v, move); err != nil {
					t.Fatalf("%v\nin %+v", err, v)
				}
				allocated++
				if breaks != 0 {
					broken++
				}
				c.carryOut([]allocation.Move{move})
			}
		}
	}
	t.Logf("%d shards allocated, %d broke a constraint", allocated, broken)
	if allocated == 0 || broken == 0 {
		t.Error("the instances test too little")
	}
}

// TestPlanningEnds: if the plans are carried out and nothing else changes, there is nothing
// left to move after some rounds.
func TestPlanningEnds(t *testing.T) {
	rng := seeded(t)
	for range 1000 {
		c := newCluster(rng, options{maxRegions: 8, maxShards: 40, constraints: rng.IntN(3) > 0, strategies: allocation.Names})
		for i := range c.types {
			clear(c.types[i].moving)
		}
		rounds := 0
		for {
			in := c.input(t, 1+rng.IntN(60))
			plan := allocation.Plan(in)
			if len(plan) == 0 {
				break
			}
			if rounds++; rounds > 400 {
				t.Fatalf("still moving %+v\nin %+v", plan, in)
			}
			c.carryOut(plan)
		}
	}
}
