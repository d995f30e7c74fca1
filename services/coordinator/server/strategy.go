package server

import (
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// allocateLate is how long a strategy of one's own may choose a region for one shard before the log says so.
// A choice takes some microseconds. The lease is valid longer, and /livez fails much later.
const allocateLate = time.Second

// timedStrategy tells when a strategy of one's own does not come to an end in time. The strategy is called in
// the loop, and nothing can stop it: it reads what the loop would change. So the log at least names the
// strategy before the process is restarted, and the next coordinator stands still for the same reason.
type timedStrategy struct {
	allocation.Strategy
	late func(shard sharding.ShardID)
}

// Allocate returns what the strategy chooses.
func (s timedStrategy) Allocate(v allocation.View, shard sharding.ShardID) sharding.NodeID {
	late := time.AfterFunc(allocateLate, func() { s.late(shard) })
	defer late.Stop()
	return s.Strategy.Allocate(v, shard)
}

// ByLoad is what the strategy itself says.
func (s timedStrategy) ByLoad() bool { return allocation.GoesByLoad(s.Strategy) }

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
