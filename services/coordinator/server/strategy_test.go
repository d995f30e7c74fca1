package server

import (
	"runtime"
	"strings"
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

// TestOwnStrategiesAreTimed: a running coordinator times its custom strategies.
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

// leavingStrategy ends its goroutine.
type leavingStrategy struct{ allocation.LeastLoad }

func (leavingStrategy) Allocate(allocation.View, sharding.ShardID) sharding.NodeID {
	runtime.Goexit()
	return sharding.NodeID{}
}

func (leavingStrategy) Rebalance(allocation.View, []sharding.ShardID) []sharding.ShardID {
	runtime.Goexit()
	return nil
}

func (leavingStrategy) ByLoad() bool {
	runtime.Goexit()
	return true
}

// TestStrategyEndsItsGoroutine: runtime.Goexit in a strategy does not end the loop that calls it. It counts as a panic.
func TestStrategyEndsItsGoroutine(t *testing.T) {
	var failures []string
	c := allocation.DefaultConfig()
	c.Own = timeStrategies(map[string]allocation.Strategy{"leaves": leavingStrategy{}}, func(string, sharding.ShardID) {})
	c.Strategy, c.OwnFailed = "leaves", func(_, what string) { failures = append(failures, what) }
	s, err := allocation.New(c)
	if err != nil {
		t.Fatal(err)
	}
	region := sharding.NodeID{Addr: "r1:1", UID: 1}
	view := allocation.View{Type: "T", Regions: []allocation.Region{{Node: region}}}
	if to := s.Allocate(view, sharding.ShardID{Type: "T"}); to != region {
		t.Errorf("a shard goes to %v", to)
	}
	if moves := s.Rebalance(view, nil); moves != nil || allocation.GoesByLoad(s) {
		t.Errorf("%v move", moves)
	}
	if len(failures) != 3 || !strings.Contains(failures[0], "runtime.Goexit") {
		t.Errorf("reported: %q", failures)
	}
}
