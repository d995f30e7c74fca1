package allocation

import (
	"math/rand/v2"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestOverShare: the surplus of the zones is the number of shards that must leave until none has more than its share,
// rounded up.
func TestOverShare(t *testing.T) {
	region := func(zone string, capacity, shards int) Region {
		return Region{Zone: zone, Capacity: capacity, Shards: make([]sharding.ShardID, shards), Status: Up}
	}
	leaving := region("c", 0, 3)
	leaving.Status = Leaving
	for name, c := range map[string]struct {
		regions []Region
		want    int
	}{
		"none":            {nil, 0},
		"none is up":      {[]Region{leaving}, 0},
		"one zone":        {[]Region{region("a", 0, 9), region("a", 0, 0)}, 0},
		"even":            {[]Region{region("a", 0, 2), region("b", 0, 3)}, 0},
		"all in one":      {[]Region{region("a", 0, 9), region("b", 0, 0)}, 4},
		"two zones":       {[]Region{region("a", 0, 5), region("b", 0, 4), region("c", 0, 0)}, 3},
		"by capacity":     {[]Region{region("a", 30, 9), region("b", 10, 0)}, 2},
		"one has not":     {[]Region{region("a", 30, 9), region("b", 0, 0)}, 4},
		"one is small":    {[]Region{region("a", 2, 2), region("b", 0, 8), region("c", 0, 10)}, 1}, // 2, 9 and 9
		"one is full":     {[]Region{region("a", 2, 2), region("b", 0, 9), region("c", 0, 9)}, 0},
		"one that leaves": {[]Region{region("a", 0, 3), region("b", 0, 3), leaving}, 0},
	} { // order-free
		if got := OverShare(View{Regions: c.regions}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	// What regions have of other types takes a part of their room: of 3 and 6 shards, 1 and 2 belong there.
	several := []Region{region("a", 3, 1), region("b", 0, 1), region("c", 0, 1)}
	for i, total := range []int{3, 3, 3} {
		several[i].Total = total
	}
	if got := OverShare(View{Regions: several}); got != 0 {
		t.Errorf("of several types, %d", got)
	}
	several[0].Shards, several[2].Shards = make([]sharding.ShardID, 3), nil
	if got := OverShare(View{Regions: several}); got != 1 {
		t.Errorf("of several types, if a zone has too many of one: %d, want 1", got)
	}
	// The checker, which states the rule in another way, sees a zone with too much if and only if there is one.
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		v := View{}
		for range 1 + r.IntN(6) {
			v.Regions = append(v.Regions, region(string(rune('a'+r.IntN(3))), []int{0, 0, 1, 3, 10, 20}[r.IntN(6)], r.IntN(8)))
		}
		z, over := sharesOf(v, nil), false
		for _, s := range z.of { // order-free: any of them will do
			over = over || (s.shards-1)*z.weights >= s.weight*z.all && s.shards > 0 && s.weight != z.weights
		}
		if got := OverShare(v); (got > 0) != over {
			t.Fatalf("%d in %+v", got, v.Regions)
		}
	}
}
