package allocation_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/allocation/allocationtest"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
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

	VirtualNodes   int                 `json:"virtual_nodes"`
	Nodes          map[string]string   `json:"nodes"`
	RebalanceLimit int                 `json:"rebalance_limit"`
	Allocations    map[string][]string `json:"allocations"`
	State          string              `json:"state"`
	Desired        map[string]string   `json:"desired"`
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

// deviates reports whether testdata/deviations.md excuses the vector.
func (v *vector) deviates() bool {
	if strings.HasPrefix(v.Kind, "app_version_") {
		return true
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
	case "consistent_hash_allocate":
		checkHashAllocate(t, v)
	case "consistent_hash_rebalance":
		checkHashRebalance(t, v)
	case "external_allocate":
		checkExternalAllocate(t, v)
	case "external_rebalance":
		checkExternalRebalance(t, v)
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

// hashing is the strategy as Pekko has it: without a bound.
func hashing(v *vector) allocation.ConsistentHashing {
	s := allocation.ConsistentHashing{VirtualNodes: 10, AbsoluteLimit: math.MaxInt}
	if v.VirtualNodes > 0 {
		s.VirtualNodes = v.VirtualNodes
	}
	if v.RebalanceLimit > 0 {
		s.AbsoluteLimit = v.RebalanceLimit
	}
	return s
}

// numbered is a view of regions called A, B and so on, with shards that are called by their
// index. By the addresses they are in this order, and so in the view.
func numbered(t *testing.T, allocations map[string][]string, names map[string]string) allocation.View {
	var v allocation.View
	for _, name := range slices.Sorted(maps.Keys(allocations)) {
		i := int(name[0] - 'A')
		r := allocation.Region{Node: allocationtest.Node(i), Name: fmt.Sprintf("pekko://myapp@127.0.0.%d:252525", i+1)}
		if names != nil {
			r.Name = names[name]
		}
		for _, id := range allocations[name] {
			r.Shards = append(r.Shards, byIndex(t, id))
		}
		v.Regions = append(v.Regions, r)
	}
	return v
}

func byIndex(t *testing.T, id string) sharding.ShardID {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return sharding.ShardID{Type: "T", Index: uint32(n)}
}

func letter(n sharding.NodeID) string {
	if n.IsZero() {
		return "nobody"
	}
	return string(rune('A' + n.UID - 1))
}

func checkHashAllocate(t *testing.T, v *vector) {
	allocations := map[string][]string{}
	for name := range v.Nodes {
		allocations[name] = nil
	}
	view := numbered(t, allocations, v.Nodes)
	var want map[string]string
	if err := json.Unmarshal(v.Expect, &want); err != nil {
		t.Fatal(err)
	}
	for id, region := range want {
		if got := letter(hashing(v).Allocate(view, byIndex(t, id))); got != region {
			t.Errorf("shard %s goes to %s, want %s", id, got, region)
		}
	}
}

func checkHashRebalance(t *testing.T, v *vector) {
	var inFlight []sharding.ShardID
	for _, id := range v.InProgress {
		inFlight = append(inFlight, byIndex(t, id))
	}
	checkMoves(t, v, hashing(v).Rebalance(numbered(t, v.Allocations, nil), inFlight))
}

func checkMoves(t *testing.T, v *vector, moves []sharding.ShardID) {
	var got []string
	for _, m := range moves {
		got = append(got, strconv.Itoa(int(m.Index)))
	}
	slices.Sort(got)
	want := v.ExpectRebalance
	if want == nil && v.Expect != nil {
		if err := json.Unmarshal(v.Expect, &want); err != nil {
			t.Fatal(err)
		}
	}
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("moves %v, want %v", got, want)
	}
}

var stored = regexp.MustCompile(`stored=(\w+)`)

// checkExternalAllocate: instead of the requester, which is not a region here, a shard without
// a usable location goes to the region with the fewest shards.
func checkExternalAllocate(t *testing.T, v *vector) {
	view := numbered(t, map[string][]string{"A": nil, "B": {"7"}}, nil)
	if strings.Contains(v.State, "regions") && !strings.Contains(v.State, "regions A,B") {
		t.Fatalf("unknown state %q", v.State)
	}
	shard := sharding.ShardID{Type: "T", Index: 1}
	if m := stored.FindStringSubmatch(v.State); m != nil {
		view.Pins = map[sharding.ShardID]string{shard: fmt.Sprintf("pekko://myapp@127.0.0.%d:252525", m[1][0]-'A'+1)}
	}
	want := text(t, v.Expect)
	if want == "requester" {
		want = "A"
	}
	if got := letter((allocation.External{}).Allocate(view, shard)); got != want {
		t.Errorf("%s: goes to %s, want %s", v.State, got, want)
	}
}

func checkExternalRebalance(t *testing.T, v *vector) {
	view := numbered(t, v.Allocations, nil)
	view.Pins = map[sharding.ShardID]string{}
	for id, region := range v.Desired {
		view.Pins[byIndex(t, id)] = fmt.Sprintf("pekko://myapp@127.0.0.%d:252525", region[0]-'A'+1)
	}
	var moved []sharding.ShardID
	for _, m := range allocation.Plan(allocation.PlanInput{Budget: math.MaxInt, Types: []allocation.TypePlan{{View: view, Strategy: allocation.External{}}}}) {
		moved = append(moved, m.Shard)
	}
	checkMoves(t, v, moved)
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
		r.Total = len(r.Shards)
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
