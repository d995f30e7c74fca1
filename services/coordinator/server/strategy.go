package server

import (
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
)

// allocateLate is the time after which the log reports that a custom strategy is still choosing a region for one
// shard. A choice takes some microseconds. The lease is valid longer, and /livez fails much later.
const allocateLate = time.Second

// timedStrategy reports when a custom strategy does not return in time. The loop waits for the strategy, and nothing can
// stop it: it reads what the loop would change. So the log at least names the
// strategy before the process is restarted, and the next coordinator stands still for the same reason.
//
// The strategy has a goroutine of its own: runtime.Goexit would end the loop without a word. It becomes a panic, which
// package allocation reports.
type timedStrategy struct {
	allocation.Strategy
	late func(shard sharding.ShardID)
}

// Allocate returns what the strategy chooses.
func (s timedStrategy) Allocate(v allocation.View, shard sharding.ShardID) sharding.NodeID {
	late := time.AfterFunc(allocateLate, func() { s.late(shard) })
	defer late.Stop()
	return apart(func() sharding.NodeID { return s.Strategy.Allocate(v, shard) })
}

// Rebalance returns the shards that the strategy names.
func (s timedStrategy) Rebalance(v allocation.View, inFlight []sharding.ShardID) []sharding.ShardID {
	return apart(func() []sharding.ShardID { return s.Strategy.Rebalance(v, inFlight) })
}

// ByLoad returns the strategy's own answer.
func (s timedStrategy) ByLoad() bool {
	return apart(func() bool { return allocation.GoesByLoad(s.Strategy) })
}

// apart returns the result of a method of a custom strategy.
func apart[T any](f func() T) (result T) {
	if !loop.Apart(func() { result = f() }) {
		panic("it ended its goroutine by runtime.Goexit instead of returning")
	}
	return result
}

// timeStrategies returns the strategies of this coordinator's own so that late is called when one does not
// choose a region in time.
func timeStrategies(own map[string]allocation.Strategy, late func(strategy string, shard sharding.ShardID)) map[string]allocation.Strategy {
	timed := map[string]allocation.Strategy{}
	for name, s := range own { // order-free: a map is made of them
		if timed[name] = s; s != nil { // Validate refuses nil
			timed[name] = timedStrategy{s, func(shard sharding.ShardID) { late(name, shard) }}
		}
	}
	return timed
}
