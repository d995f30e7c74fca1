package coordinator

import (
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// handOff orders the owner to stop the shard. The row cannot go back to serving at
// this epoch.
func (m *Machine) handOff(r *row) {
	next := r.Row
	next.Phase = sharding.HandingOff
	m.commit(r.fact(next), Send{To: next.Owner, Msg: control.HandOff{Term: m.term, Shard: next.Shard, Epoch: next.Epoch}})
	r.asked = m.now
}

// shardStopped: the owner has stopped the shard, ordered to or not.
func (m *Machine) shardStopped(from sharding.NodeID, in control.ShardStopped) {
	t, r := m.owned(in.Shard, from)
	if r == nil || in.Epoch < r.Epoch && !mutant.On("stopped-epoch") || !m.plausible(in.Epoch) {
		return
	}
	forms := m.afterStop(t, r, in.Wrote)
	m.assign(t, r, m.choose(t, r.Shard, sharding.NodeID{}, forms), in.Epoch, forms, r.keeper(from, in))
}

// gracefulShutdown marks the region as leaving; the sweep at the end of the
// Step begins the handoffs. Every repeat is answered with what is left.
func (m *Machine) gracefulShutdown(node sharding.NodeID, call control.Call) {
	if r := m.region(node); r != nil && !r.leaving {
		r.leaving, m.sweepDue = true, true
	}
	m.reply(call, control.ShutdownAck{Term: m.term, Remaining: m.shardsOf(node)})
}

// shardsOf counts the rows that name the node as owner, in any phase.
func (m *Machine) shardsOf(node sharding.NodeID) int {
	n := 0
	for _, t := range m.types {
		n += len(t.shardsOf(node))
	}
	return n
}

// rebalance asks the strategy what should move, type by type.
func (m *Machine) rebalance() {
	if !m.recovered || m.frozen() && !mutant.On("rollout-freeze") {
		return
	}
	unsettled := slices.ContainsFunc(m.regions, func(r region) bool { return !r.reachable })
	for _, t := range m.types {
		v := m.view(t, sharding.NodeID{}, "", (*region).candidate)
		v.Unsettled = unsettled
		if unsettled || len(v.Regions) < 2 {
			continue
		}
		var moves []sharding.ShardID
		if m.uniform(t) {
			moves = m.cfg.Strategy.Rebalance(v, t.inFlight())
		} else {
			moves = m.evenOut(t, v)
		}
		for _, s := range moves {
			_, r := m.find(s)
			if r != nil && r.Phase == sharding.Serving && !m.pending(r.number) && m.handoffs < m.cfg.MaxHandoffs {
				m.handOff(r)
			}
		}
	}
}

// inFlight lists the shards that are on the move.
func (t *typeTable) inFlight() []sharding.ShardID {
	if t.transit == 0 {
		return nil
	}
	moving := make([]sharding.ShardID, 0, t.transit)
	for i := range t.rows {
		if inTransit(t.rows[i].Row) {
			moving = append(moving, t.rows[i].Shard)
		}
	}
	return moving
}
