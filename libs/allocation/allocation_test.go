package allocation_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

func mustNew(t *testing.T) allocation.Strategy {
	t.Helper()
	s, err := allocation.New(allocation.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for _, name := range allocation.Names {
		s := strategy(t, name)
		if name == allocation.NameExternal {
			s = rebalanced{s, strategy(t, allocation.NameLeastShards)}
		}
		t.Run(name, func(t *testing.T) { allocationtest.Run(t, s, prepare[name]) })
	}
}

// rebalanced is a strategy that moves nothing, with the moves of another one.
type rebalanced struct {
	allocation.Strategy
	moves allocation.Strategy
}

func (s rebalanced) Rebalance(v allocation.View, inFlight []sharding.ShardID) []sharding.ShardID {
	return s.moves.Rebalance(v, inFlight)
}

// prepare adds to a view what strategies go by.
var prepare = map[string]func(*allocation.View){
	// Each third shard is wanted at the first region.
	allocation.NameExternal: func(v *allocation.View) {
		v.Pins = map[sharding.ShardID]string{}
		for i := range v.Regions {
			for _, s := range v.Regions[i].Shards {
				if s.Index%3 == 0 {
					v.Pins[s] = v.Regions[0].Name
				}
			}
		}
	},
	// Some shards are busier than others.
	allocation.NameLoad: func(v *allocation.View) {
		for i := range v.Regions {
			r := &v.Regions[i]
			for _, s := range r.Shards {
				for int(s.Index) >= len(v.ShardLoads) {
					v.ShardLoads = append(v.ShardLoads, allocation.ShardLoad{})
				}
				load := allocation.Load{Processors: 0.1 * float64(1+s.Index%5)}
				v.ShardLoads[s.Index].Load = load
				r.Load = r.Load.Plus(load)
			}
		}
	},
}

func TestNewRefusesNonsense(t *testing.T) {
	bad := map[string]func(*allocation.Config){
		"no strategy":  func(c *allocation.Config) { c.Strategy = "" },
		"unknown":      func(c *allocation.Config) { c.Strategy = "most-shards" },
		"relative 0":   func(c *allocation.Config) { c.RelativeLimit = 0 },
		"relative 1.1": func(c *allocation.Config) { c.RelativeLimit = 1.1 },
		"relative NaN": func(c *allocation.Config) { c.RelativeLimit = math.NaN() },
		"absolute":     func(c *allocation.Config) { c.AbsoluteLimit = 0 },
		"threshold":    func(c *allocation.Config) { c.Threshold = -1 },
		"simultaneous": func(c *allocation.Config) { c.MaxSimultaneous = 0 },
		"no points":    func(c *allocation.Config) { c.VirtualNodes = 0 },
		"many points":  func(c *allocation.Config) { c.VirtualNodes = 1_000_000 },
		"bound":        func(c *allocation.Config) { c.BoundedLoad = -1 },
		"bound NaN":    func(c *allocation.Config) { c.BoundedLoad = math.NaN() },
		"tolerance":    func(c *allocation.Config) { c.LoadTolerance, c.LoadHysteresis = 0, 0 },
		"hysteresis":   func(c *allocation.Config) { c.LoadHysteresis = 0.11 },
		"floor":        func(c *allocation.Config) { c.LoadFloor = -1 },
		"cool-down":    func(c *allocation.Config) { c.LoadCooldown = -1 },
		"move":         func(c *allocation.Config) { c.LoadMoveMiB = 0 },
		"command":      func(c *allocation.Config) { c.LoadCommand = -1 },
		"journal":      func(c *allocation.Config) { c.LoadJournalMiB = math.Inf(1) },
		"entities":     func(c *allocation.Config) { c.LoadEntities = -1 },
		"GiB":          func(c *allocation.Config) { c.LoadGiB = math.NaN() },
		"own, unnamed": func(c *allocation.Config) { c.Own = map[string]allocation.Strategy{"": allocation.External{}} },
		"own, spaces":  func(c *allocation.Config) { c.Own = map[string]allocation.Strategy{"my own": allocation.External{}} },
		"own, ours": func(c *allocation.Config) {
			c.Own = map[string]allocation.Strategy{allocation.NameLoad: allocation.External{}}
		},
		"own, nil": func(c *allocation.Config) { c.Own = map[string]allocation.Strategy{"mine": nil} },
	}
	for name, f := range bad {
		c := allocation.DefaultConfig()
		f(&c)
		if _, err := allocation.New(c); !errors.Is(err, allocation.ErrConfig) {
			t.Errorf("%s gives %v", name, err)
		}
	}
}

// TestOwnStrategy: a strategy that a program has registered is chosen by its name, and is
// among those that the error about a wrong name lists.
func TestOwnStrategy(t *testing.T) {
	c := allocation.DefaultConfig()
	mine := allocation.LeastLoad{AbsoluteLimit: 7}
	c.Own = map[string]allocation.Strategy{"mine": mine}
	c.Strategy = "mine"
	s, err := allocation.New(c)
	if err != nil || allocation.NameOf(s) != "mine" || !allocation.GoesByLoad(s) {
		t.Errorf("New returns %+v, %v", s, err)
	}
	v := allocationtest.Counts(2, 1)
	if got := s.Allocate(v, sharding.ShardID{Type: "T", Index: 9}); got != allocationtest.Node(1) {
		t.Errorf("it allocates to %v", got)
	}
	if c.Own["mine"] = (allocation.LeastShards{}); allocation.GoesByLoad(c.Own["mine"]) {
		t.Error("least-shards goes by load")
	}
	if s, err = allocation.New(c); err != nil || allocation.GoesByLoad(s) {
		t.Errorf("New returns %+v, %v: it goes by load", s, err)
	}
	c.Strategy = "yours"
	if _, err := allocation.New(c); err == nil || !strings.Contains(err.Error(), "external, load, mine") {
		t.Errorf("New returns %v", err)
	}
}

// faulty panics, or chooses a region that is not here.
type faulty struct{ node sharding.NodeID }

func (f faulty) Allocate(allocation.View, sharding.ShardID) sharding.NodeID {
	if f.node.IsZero() {
		panic("no region")
	}
	return f.node
}

func (faulty) Rebalance(allocation.View, []sharding.ShardID) []sharding.ShardID { panic("no shards") }

// TestFaultyStrategy: shards are served although a program's strategy panics, or chooses a region that is not
// here, and the program is notified.
func TestFaultyStrategy(t *testing.T) {
	for _, f := range []faulty{{}, {sharding.NodeID{Addr: "nowhere:1", UID: 1}}} {
		c := allocation.DefaultConfig()
		var told []string
		c.Own, c.Strategy = map[string]allocation.Strategy{"faulty": f}, "faulty"
		c.OwnFailed = func(strategy, what string) { told = append(told, strategy+": "+what) }
		s, err := allocation.New(c)
		if err != nil {
			t.Fatal(err)
		}
		v := allocationtest.Counts(2, 1)
		if got := s.Allocate(v, sharding.ShardID{Type: "T", Index: 9}); got != allocationtest.Node(1) {
			t.Errorf("a shard goes to %v", got)
		}
		if got := s.Rebalance(v, nil); len(got) > 0 || len(told) != 2 || !strings.HasPrefix(told[0], "faulty: it ") {
			t.Errorf("%v shall move, told is %q", got, told)
		}
		c.OwnFailed = nil
		if s, err = allocation.New(c); err != nil || s.Allocate(v, sharding.ShardID{Type: "T", Index: 9}) != allocationtest.Node(1) {
			t.Errorf("the program is not notified: %v", err)
		}
	}
}

// TestTiesKeepInputOrder: whatever the nodes are called.
func TestTiesKeepInputOrder(t *testing.T) {
	s := mustNew(t)
	v := allocationtest.Counts(1, 1, 1)
	slices.Reverse(v.Regions)
	if got := s.Allocate(v, sharding.ShardID{Type: "T", Index: 9}); got != allocationtest.Node(2) {
		t.Errorf("allocated to %v, want the first of the view %v", got, allocationtest.Node(2))
	}
}

// TestUnlimitedBecomesEvenInFewRounds: without limits, any distribution becomes even.
func TestUnlimitedBecomesEvenInFewRounds(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := allocation.LeastShards{RelativeLimit: 1, AbsoluteLimit: math.MaxInt}
	for range 300 {
		drawn := make([]int, 1+rng.IntN(30))
		for i := range drawn {
			drawn[i] = rng.IntN(1 + rng.IntN(100))
		}
		rounds, final := balance(t, s, drawn)
		if rounds > 5 || slices.Max(final)-slices.Min(final) > 1 || sum(final) != sum(drawn) {
			t.Fatalf("seed %d: %v took %d rounds to %v", seed, drawn, rounds, final)
		}
	}
}

// TestJoinUnderLimits: a new region is filled in rounds within the limit, and the others
// lose no more than necessary.
func TestJoinUnderLimits(t *testing.T) {
	c := allocation.DefaultConfig()
	c.RelativeLimit, c.AbsoluteLimit = 0.1, 100
	s, err := allocation.New(c)
	if err != nil {
		t.Fatal(err)
	}
	v := allocationtest.Counts(342, 341, 341, 0)
	moved := 0
	for moves := s.Rebalance(v, nil); len(moves) > 0; moves = s.Rebalance(v, nil) {
		if len(moves) > 100 {
			t.Fatalf("a round moves %d shards, at most 100 are allowed", len(moves))
		}
		moved += len(moves)
		v = allocationtest.Move(t, s, v, moves)
	}
	if got := counts(v); !slices.Equal(got, []int{256, 256, 256, 256}) || moved != 256 {
		t.Errorf("%d moves lead to %v, want 256 moves to 256 each", moved, got)
	}
}

func balance(t *testing.T, s allocation.Strategy, start []int) (rounds int, final []int) {
	v := allocationtest.Counts(start...)
	for moves := s.Rebalance(v, nil); len(moves) > 0 && rounds <= 100; moves = s.Rebalance(v, nil) {
		rounds++
		v = moveFast(s, v, moves)
	}
	return rounds, counts(v)
}

// moveFast is allocationtest.Move for large views: one pass per region.
func moveFast(s allocation.Strategy, v allocation.View, moves []sharding.ShardID) allocation.View {
	moving := make(map[sharding.ShardID]bool)
	for _, m := range moves {
		moving[m] = true
	}
	index := make(map[sharding.NodeID]int)
	for i := range v.Regions {
		r := &v.Regions[i]
		index[r.Node] = i
		r.Shards = slices.DeleteFunc(r.Shards, func(x sharding.ShardID) bool { return moving[x] })
	}
	for _, m := range moves {
		r := &v.Regions[index[s.Allocate(v, m)]]
		r.Shards = append(r.Shards, m)
	}
	return v
}

func counts(v allocation.View) []int {
	c := make([]int, len(v.Regions))
	for i := range v.Regions {
		c[i] = len(v.Regions[i].Shards)
	}
	return c
}

func sum(c []int) int {
	n := 0
	for _, x := range c {
		n += x
	}
	return n
}
