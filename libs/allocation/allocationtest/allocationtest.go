// Package allocationtest is the conformance suite of allocation strategies. The test of each strategy calls
// [Run]. It also has models of loads: with [RunZipf] and [RunSine], tests and benchmarks show how the
// strategy for loads behaves.
//
// # What this does not do
//
// The suite does not judge how good an allocation is; only that it is valid, that the strategy
// is a pure function, and that rebalancing ends.
package allocationtest

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// rounds is enough for any strategy that moves at least one shard per round.
const rounds = 1000

// Run runs the conformance suite on a strategy. Prepare adds to a view what the strategy goes
// by besides the numbers of shards, such as pins or loads, so that shards should move from
// the other regions to those with none; nil: it goes by numbers.
func Run(t *testing.T, s allocation.Strategy, prepare func(*allocation.View)) {
	c := conformance{Strategy: s, prepare: prepare}
	t.Run("no regions", c.noRegions)
	t.Run("candidates", c.candidates)
	t.Run("unsettled", c.unsettled)
	t.Run("valid moves", c.validMoves)
	t.Run("rebalancing ends", c.rebalancingEnds)
}

type conformance struct {
	allocation.Strategy
	prepare func(*allocation.View)
}

// counts is Counts with what the strategy goes by.
func (c conformance) counts(numbers ...int) allocation.View { return c.prepared(Counts(numbers...)) }

func (c conformance) prepared(v allocation.View) allocation.View {
	if c.prepare != nil {
		c.prepare(&v)
	}
	return v
}

// Node returns the i-th node.
func Node(i int) sharding.NodeID {
	return sharding.NodeID{Addr: "region:" + string(rune('a'+i%26)), UID: sharding.NodeUID(i + 1)}
}

// Counts returns a settled view whose regions have the given numbers of shards.
func Counts(counts ...int) allocation.View {
	var v allocation.View
	var index uint32
	for i, n := range counts {
		r := allocation.Region{Node: Node(i), Name: "region-" + strconv.Itoa(i), Total: n}
		for range n {
			r.Shards = append(r.Shards, sharding.ShardID{Type: "T", Index: index})
			index++
		}
		v.Regions = append(v.Regions, r)
	}
	return v
}

// Move removes shards from their regions and allocates them again, in order.
func Move(t *testing.T, s allocation.Strategy, v allocation.View, moves []sharding.ShardID) allocation.View {
	t.Helper()
	v = Clone(v)
	for _, sh := range moves {
		for i := range v.Regions {
			r := &v.Regions[i]
			if at := slices.Index(r.Shards, sh); at >= 0 {
				r.Shards = slices.Delete(r.Shards, at, at+1)
				r.Total--
				r.Load = r.Load.Minus(loadOf(v, sh))
			}
		}
	}
	for _, sh := range moves {
		node := s.Allocate(v, sh)
		i := slices.IndexFunc(v.Regions, func(r allocation.Region) bool { return r.Node == node })
		if i < 0 {
			t.Fatalf("shard %v was allocated to %v, which is not in the view", sh, node)
		}
		r := &v.Regions[i]
		r.Shards = append(r.Shards, sh)
		r.Total++
		r.Load = r.Load.Plus(loadOf(v, sh))
	}
	return v
}

func loadOf(v allocation.View, s sharding.ShardID) allocation.Load {
	if int(s.Index) < len(v.ShardLoads) {
		return v.ShardLoads[s.Index].Load
	}
	return allocation.Load{}
}

// Clone returns a deep copy of a view.
func Clone(v allocation.View) allocation.View {
	v.Regions = slices.Clone(v.Regions)
	for i := range v.Regions {
		v.Regions[i].Shards = slices.Clone(v.Regions[i].Shards)
	}
	return v
}

// random returns a function that generates views with 1 to 12 regions of 0 to 29 shards,
// and logs the seed if the test fails.
func random(t *testing.T) func() allocation.View {
	t.Helper()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return func() allocation.View {
		counts := make([]int, 1+rng.IntN(12))
		for i := range counts {
			counts[i] = rng.IntN(30)
		}
		v := Counts(counts...)
		rng.Shuffle(len(v.Regions), func(i, j int) { v.Regions[i], v.Regions[j] = v.Regions[j], v.Regions[i] })
		return v
	}
}

func (s conformance) noRegions(t *testing.T) {
	shard := sharding.ShardID{Type: "T"}
	if got := s.Allocate(allocation.View{}, shard); !got.IsZero() {
		t.Errorf("an empty view allocates to %v, want no region", got)
	}
	if got := s.Rebalance(allocation.View{}, nil); len(got) != 0 {
		t.Errorf("an empty view moves %v, want nothing", got)
	}
	if got := s.Rebalance(s.counts(0, 0, 0), nil); len(got) != 0 {
		t.Errorf("without shards %v moves, want nothing", got)
	}
	if got := s.Rebalance(s.counts(7), nil); len(got) != 0 {
		t.Errorf("a single region moves %v, want nothing", got)
	}
}

func (s conformance) candidates(t *testing.T) {
	shard := sharding.ShardID{Type: "T", Index: 99}
	spoil := map[string]func(*allocation.Region){
		"leaving":     func(r *allocation.Region) { r.Status = allocation.Leaving },
		"exiting":     func(r *allocation.Region) { r.Status = allocation.Exiting },
		"down":        func(r *allocation.Region) { r.Status = allocation.Down },
		"unreachable": func(r *allocation.Region) { r.Unreachable = true },
	}
	for name, f := range spoil {
		v := s.counts(0, 5, 0)
		f(&v.Regions[0])
		f(&v.Regions[2])
		if got := s.Allocate(v, shard); got != Node(1) {
			t.Errorf("%s: allocated to %v, want the only candidate %v", name, got, Node(1))
		}
		f(&v.Regions[1])
		if got := s.Allocate(v, shard); !got.IsZero() {
			t.Errorf("%s: allocated to %v, want no region", name, got)
		}
	}
}

func (s conformance) unsettled(t *testing.T) {
	calm := s.counts(0, 40, 40)
	if len(s.Rebalance(calm, nil)) == 0 {
		t.Fatal("a settled view of 0, 40 and 40 shards moves nothing")
	}
	spoil := map[string]func(*allocation.View){
		"unreachable":   func(v *allocation.View) { v.Regions[2].Unreachable = true },
		"joining":       func(v *allocation.View) { v.Regions[0].Status = allocation.Joining },
		"weakly up":     func(v *allocation.View) { v.Regions[0].Status = allocation.WeaklyUp },
		"caller's flag": func(v *allocation.View) { v.Unsettled = true },
	}
	for name, f := range spoil {
		v := Clone(calm)
		f(&v)
		if got := s.Rebalance(v, nil); len(got) != 0 {
			t.Errorf("%s: moves %v, want nothing", name, got)
		}
	}
}

func (s conformance) validMoves(t *testing.T) {
	draw := random(t)
	for range 200 {
		v := s.prepared(draw())
		before := Clone(v)
		var all, inFlight []sharding.ShardID
		for _, r := range v.Regions {
			all = append(all, r.Shards...)
			if len(r.Shards) > 20 {
				inFlight = append(inFlight, r.Shards[0])
			}
		}
		inFlight = append(inFlight, sharding.ShardID{Type: "T", Index: 1 << 15}) // no region owns it
		for _, busy := range [][]sharding.ShardID{nil, inFlight} {
			moves := s.Rebalance(v, busy)
			for i, m := range moves {
				if !slices.Contains(all, m) {
					t.Fatalf("moves %v, which no region has", m)
				}
				if slices.Contains(busy, m) || slices.Contains(moves[:i], m) {
					t.Fatalf("moves %v, which is on the move already", m)
				}
			}
			if again := s.Rebalance(v, busy); !slices.Equal(again, moves) {
				t.Fatalf("asked twice: %v, then %v", moves, again)
			}
		}
		shard := sharding.ShardID{Type: "T", Index: 1 << 14}
		node := s.Allocate(v, shard)
		if node.IsZero() || s.Allocate(v, shard) != node {
			t.Fatalf("allocated to %v, then to %v", node, s.Allocate(v, shard))
		}
		if !reflect.DeepEqual(v, before) {
			t.Fatal("the strategy changed its view")
		}
	}
}

func (s conformance) rebalancingEnds(t *testing.T) {
	draw := random(t)
	for range 50 {
		v := s.prepared(draw())
		total := count(v)
		n := 0
		for moves := s.Rebalance(v, nil); len(moves) > 0; moves = s.Rebalance(v, nil) {
			if n++; n > rounds {
				t.Fatalf("still moving after %d rounds", rounds)
			}
			v = Move(t, s, v, moves)
		}
		if count(v) != total {
			t.Fatalf("%d shards became %d", total, count(v))
		}
	}
}

func count(v allocation.View) int {
	n := 0
	for _, r := range v.Regions {
		n += len(r.Shards)
	}
	return n
}
