package region_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// TestLimitOfARegion: the shard cores share the limit of a type, the configured one and one
// that is set later. No core has less than one entity.
func TestLimitOfARegion(t *testing.T) {
	cfg := region.DefaultConfig(self, "region-1", turn.Type{
		Desc:        sharding.TypeDesc{Type: "T", Shards: 16, Commands: []sharding.CommandDesc{{Name: "Do"}}},
		Passivation: passivation.LRU(10),
	})
	cfg.ShardCores = 4
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	sum := func(cores []*region.ShardCore) (limit int) {
		for _, c := range cores {
			limit += c.TypeStats()[0].Limit
		}
		return limit
	}
	var cores []*region.ShardCore
	for i := range cfg.ShardCores {
		cores = append(cores, region.NewShardCore(cfg, i))
	}
	if n := sum(cores); n != 8 {
		t.Errorf("the cores have a limit of %d together, want 8 of 10", n)
	}
	if n := cfg.Turn.Types[0].Passivation.Limit; n != 10 {
		t.Errorf("the configuration was changed: %d", n)
	}
	for limit, want := range map[int]int{100: 100, 2: 4} { // order-free: independent cases
		for _, c := range cores {
			c.Step(time.Unix(1, 0), region.SetPassivation{Type: "T", Strategy: passivation.LFU(limit)}, &region.Outputs{})
		}
		if n := sum(cores); n != want {
			t.Errorf("the cores have a limit of %d together, want %d", n, want)
		}
	}
}
