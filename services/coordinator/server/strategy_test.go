package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// lateStrategy takes a time to choose a region.
type lateStrategy struct {
	allocation.LeastLoad
	takes time.Duration
}

func (s lateStrategy) Allocate(allocation.View, sharding.ShardID) sharding.NodeID {
	time.Sleep(s.takes)
	return sharding.NodeID{Addr: "r1:1", UID: 1}
}

// TestTimedStrategy: a strategy that does not choose a region in time is named, with the shard. What it
// chooses, and whether it goes by load, is not changed.
func TestTimedStrategy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := ""
		shard := sharding.ShardID{Type: "T", Index: 7}
		list := timeStrategies(map[string]allocation.Strategy{
			"quick": lateStrategy{takes: allocateLate / 2}, "slow": lateStrategy{takes: 3 * allocateLate}, "none": nil, "plain": allocation.LeastShards{},
		}, func(strategy string, s sharding.ShardID) { told += strategy + " " + s.String() + "\n" })
		for _, name := range []string{"quick", "slow"} {
			if to := list[name].Allocate(allocation.View{}, shard); to.Addr != "r1:1" || !allocation.GoesByLoad(list[name]) {
				t.Errorf("%s chooses %v, by load: %t", name, to, allocation.GoesByLoad(list[name]))
			}
		}
		synctest.Wait() // the timer has told it on a goroutine of its own
		if told != "slow T/7\n" || list["none"] != nil || allocation.GoesByLoad(list["plain"]) {
			t.Errorf("told of %q; strategies are %v", told, list)
		}
	})
}

// TestOwnStrategiesAreTimed: those of a coordinator that runs.
func TestOwnStrategiesAreTimed(t *testing.T) {
	addr := freeAddr(t)
	c := start(t, t.TempDir(), addr, "static://"+addr, func(cfg *Config) {
		WithStrategy("late", lateStrategy{})(cfg)
		cfg.Allocation.Strategy = "late"
	})
	defer c.end()
	if s, timed := c.server.cfg.Allocation.Own["late"].(timedStrategy); !timed || allocation.NameOf(c.server.limits.Strategy) != "late" {
		t.Errorf("the strategies are %#v, and %s is used", s, allocation.NameOf(c.server.limits.Strategy))
	}
}
