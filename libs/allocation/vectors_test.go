package allocation_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/archtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

type vectorRegion struct {
	Region  string   `json:"region"`
	Shards  []string `json:"shards"`
	Status  string   `json:"status"`
	Version string   `json:"version"`
}

type vectorSide struct {
	Status  string `json:"status"`
	Version string `json:"version"`
	Shards  int    `json:"shards"`
}

type vector struct {
	ID              string          `json:"id"`
	Kind            string          `json:"kind"`
	Name            string          `json:"name"`
	Regions         []vectorRegion  `json:"regions"`
	AbsoluteLimit   int             `json:"absolute_limit"`
	RelativeLimit   float64         `json:"relative_limit"`
	Threshold       int             `json:"rebalance_threshold"`
	MaxSimultaneous int             `json:"max_simultaneous_rebalance"`
	InProgress      []string        `json:"rebalance_in_progress"`
	ExpectRebalance []string        `json:"expect_rebalance"`
	ExpectCounts    []int           `json:"expect_counts_after"`
	CountsSorted    bool            `json:"counts_sorted"`
	Condition       string          `json:"cluster_condition"`
	Shard           string          `json:"shard"`
	Expect          json.RawMessage `json:"expect"`
	A               vectorSide      `json:"a"`
	B               vectorSide      `json:"b"`
	MaxRegions      int             `json:"max_regions"`
	MaxShards       int             `json:"max_shards_per_region_exclusive"`
	MaxRounds       int             `json:"max_rounds"`
}

func TestVectors(t *testing.T) {
	for _, c := range archtest.Vectors(t, "allocation.json") {
		t.Run(c.Name, func(t *testing.T) {
			var v vector
			c.Decode(t, &v)
			if v.deviates() {
				t.Log("does not apply: see testdata/deviations.md")
				return
			}
			check(t, &v)
		})
	}
}

// deviates reports whether testdata/deviations.md says why the vector does not apply.
func (v *vector) deviates() bool {
	for _, prefix := range []string{"consistent_hash_", "external_", "app_version_"} {
		if strings.HasPrefix(v.Kind, prefix) {
			return true
		}
	}
	versions := v.A.Version != v.B.Version
	for _, r := range v.Regions {
		versions = versions || r.Version != v.Regions[0].Version
	}
	return versions && strings.HasPrefix(v.Kind, "suitability_")
}

func check(t *testing.T, v *vector) {
	switch v.Kind {
	case "rebalance_new":
		checkRebalance(t, v, allocation.LeastShards{RelativeLimit: v.RelativeLimit, AbsoluteLimit: v.AbsoluteLimit})
	case "rebalance_old":
		checkRebalance(t, v, allocation.Threshold{Threshold: v.Threshold, MaxSimultaneous: v.MaxSimultaneous})
	case "allocate":
		w := newWorld(t, v)
		if got := w.name(mustNew(t).Allocate(w.view, w.shard(v.Shard))); got != text(t, v.Expect) {
			t.Errorf("allocated to %s, want %s", got, v.Expect)
		}
	case "suitability_order":
		checkOrder(t, v)
	case "suitability_compare":
		a, b := v.A.region(t), v.B.region(t)
		var want int
		if err := json.Unmarshal(v.Expect, &want); err != nil {
			t.Fatal(err)
		}
		if got := allocation.Compare(&a, &b); sign(got) != want || sign(allocation.Compare(&b, &a)) != -want {
			t.Errorf("compares as %d, want %d, and the other way round", got, want)
		}
	case "property_new":
		checkProperty(t, v)
	default:
		t.Errorf("unknown kind %q", v.Kind)
	}
}

func checkRebalance(t *testing.T, v *vector, s allocation.Strategy) {
	w := newWorld(t, v)
	var inFlight []sharding.ShardID
	for _, id := range v.InProgress {
		inFlight = append(inFlight, w.shard(id))
	}
	moves := s.Rebalance(w.view, inFlight)
	got := make([]string, 0, len(moves))
	for _, m := range moves {
		got = append(got, w.ids[m.Index])
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(v.ExpectRebalance))
	if !slices.Equal(got, want) {
		t.Fatalf("%s: moves %v, want %v", v.Name, got, want)
	}
	if v.ExpectCounts == nil {
		return
	}
	slices.SortFunc(moves, func(a, b sharding.ShardID) int { return strings.Compare(w.ids[a.Index], w.ids[b.Index]) })
	counts := counts(allocationtest.Move(t, s, w.view, moves))
	if v.CountsSorted {
		slices.Sort(counts)
	}
	if !slices.Equal(counts, v.ExpectCounts) {
		t.Errorf("%s: counts are %v, want %v", v.Name, counts, v.ExpectCounts)
	}
}

// checkOrder sorts the regions by suitability.
func checkOrder(t *testing.T, v *vector) {
	w := newWorld(t, v)
	regions := slices.Clone(w.view.Regions)
	slices.SortStableFunc(regions, func(a, b allocation.Region) int { return allocation.Compare(&a, &b) })
	var got, want []string
	for _, r := range regions {
		got = append(got, w.name(r.Node))
	}
	if err := json.Unmarshal(v.Expect, &want); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("order is %v, want %v", got, want)
	}
}

func checkProperty(t *testing.T, v *vector) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := allocation.LeastShards{RelativeLimit: 1, AbsoluteLimit: 100_000}
	for range 10 {
		drawn := make([]int, 1+rng.IntN(v.MaxRegions))
		total := 0
		for i := range drawn {
			drawn[i] = rng.IntN(v.MaxShards)
			total += drawn[i]
		}
		if rounds, final := balance(t, s, drawn); rounds > v.MaxRounds || slices.Max(final)-slices.Min(final) > 1 {
			t.Fatalf("seed %d: %v took %d rounds to %v, want at most %d", seed, drawn, rounds, final, v.MaxRounds)
		} else if sum(final) != total {
			t.Fatalf("seed %d: %d shards became %d", seed, total, sum(final))
		}
	}
}

// world maps the names of a vector to nodes and shards.
type world struct {
	view  allocation.View
	names []string
	ids   []string
}

var condition = regexp.MustCompile(`member of (\w+) is (\w+)`)

func newWorld(t *testing.T, v *vector) *world {
	w := &world{}
	for i, vr := range v.Regions {
		r := vectorSide{Status: vr.Status}.region(t)
		r.Node = allocationtest.Node(i)
		for _, id := range vr.Shards {
			r.Shards = append(r.Shards, w.shard(id))
		}
		w.names = append(w.names, vr.Region)
		w.view.Regions = append(w.view.Regions, r)
	}
	if m := condition.FindStringSubmatch(v.Condition); m != nil {
		i := slices.Index(w.names, m[1])
		if i < 0 {
			w.view.Unsettled = true
		} else if m[2] == "unreachable" {
			w.view.Regions[i].Unreachable = true
		} else {
			w.view.Regions[i].Status = status(t, m[2])
		}
	} else if v.Condition != "" {
		w.view.Unsettled = true
	}
	return w
}

func (w *world) shard(id string) sharding.ShardID {
	i := slices.Index(w.ids, id)
	if i < 0 {
		i = len(w.ids)
		w.ids = append(w.ids, id)
	}
	return sharding.ShardID{Type: "T", Index: uint32(i)}
}

func (w *world) name(n sharding.NodeID) string {
	if n.IsZero() {
		return "nobody"
	}
	return w.names[n.UID-1]
}

func (s vectorSide) region(t *testing.T) allocation.Region {
	return allocation.Region{Status: status(t, s.Status), Shards: make([]sharding.ShardID, s.Shards)}
}

func status(t *testing.T, s string) allocation.Status {
	all := map[string]allocation.Status{"": allocation.Up, "Up": allocation.Up, "Joining": allocation.Joining,
		"WeaklyUp": allocation.WeaklyUp, "Leaving": allocation.Leaving, "Exiting": allocation.Exiting, "Down": allocation.Down}
	got, ok := all[s]
	if !ok {
		t.Fatalf("unknown status %q", s)
	}
	return got
}

func text(t *testing.T, raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func sign(i int) int {
	return min(1, max(-1, i))
}
