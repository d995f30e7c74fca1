package coordinator

import (
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// handOff orders the owner to stop the shard, which then goes to the successor; zero: to
// whoever is chosen then; why is the cause. The row cannot go back to serving at this epoch.
func (m *Machine) handOff(r *row, successor sharding.NodeID, why sharding.Cause) {
	next := r.Row
	next.Phase = sharding.HandingOff
	f := r.fact(next)
	f.Successor, f.Cause = successor, why
	m.commit(f, Send{To: next.Owner, Msg: control.HandOff{Term: m.term, Shard: next.Shard, Epoch: next.Epoch}})
	r.asked = m.now
	if needOf(why) == voluntary {
		m.budget.moveBegan(m.now, &m.cfg)
	}
}

// exceeds returns the limit of the budget that the handoff of a row would exceed now.
func (m *Machine) exceeds(r *row, successor sharding.NodeID, why sharding.Cause) limit {
	return m.budget.exceeds(m.now, &m.cfg, needOf(why), r.Owner, successor)
}

// shardStopped: the owner has stopped the shard, ordered to or not.
func (m *Machine) shardStopped(from sharding.NodeID, in control.ShardStopped) {
	t, r := m.owned(in.Shard, from)
	if r == nil || in.Epoch < r.Epoch && !mutant.On("stopped-epoch") || !m.plausible(in.Epoch) {
		return
	}
	forms, why := m.afterStop(t, r, in.Wrote), r.cause
	if r.Phase != sharding.HandingOff {
		why = sharding.CauseReleased
	}
	m.assign(t, r, m.choose(t, r, sharding.NodeID{}, forms), in.Epoch, forms, r.keeper(from, in), why)
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
