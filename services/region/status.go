package region

import (
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// ShardStatus is a shard core's view of a shard, for operators. No decision depends on it.
type ShardStatus struct {
	// Phase is claiming, fetching, serving or stopping; empty: the core does not hold the shard.
	Phase    string
	Epoch    sharding.Epoch
	MinEpoch sharding.Epoch // the shard is refused below
	Buffered int            // commands that wait until it is served
	// Damaged is true if its last claim was refused because the fence is damaged, Repeated if a claim has
	// failed and will be made again.
	Damaged, Repeated bool
	Stats             turn.Stats // of the whole core
}

// Shard returns what this core has of a shard.
func (m *ShardCore) Shard(id sharding.ShardID) ShardStatus {
	st := ShardStatus{MinEpoch: m.minEpoch(id), Stats: m.Stats()}
	if h := m.shard(id); h != nil {
		st.Phase, st.Epoch, st.Buffered = h.phase.String(), h.epoch, len(h.buffer)
		st.Damaged, st.Repeated = h.damaged, h.phase == claiming && !h.claimAt.IsZero()
	}
	return st
}
