package coordinator

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A handoff can end without its coordinator. The fact that begins it names the successor, and
// reserves an epoch for it. The owner is told both. When it has released the shard, it sends
// HostShard to the successor itself, and the successor claims the shard at that epoch. Whoever is
// the coordinator then has only to write down that the successor serves. The shard never goes back
// to the owner at its epoch; and every other epoch that the shard gets is above the reserved one,
// so the fence refuses a successor that comes too late.

// handOff orders the owner to stop the shard, which then goes to the successor; zero: to
// whoever is chosen, now or then; why is the cause. The row cannot go back to serving at this epoch.
func (m *Machine) handOff(t *typeTable, r *row, successor sharding.NodeID, why sharding.Cause) {
	next := r.Row
	next.Phase = sharding.HandingOff
	f := r.fact(next)
	f.Successor, f.Cause = successor, why
	m.reserve(t, r, &f)
	m.decideRow(HandedOff, t, r, f, f.Successor)
	m.commit(f, Send{To: next.Owner, Msg: m.handOffOrder(f)})
	r.asked = m.now
	if needOf(why) == voluntary {
		m.budget.moveBegan(m.now, &m.cfg)
	}
}

// exceeds returns the limit of the budget that the handoff of a row would exceed now.
func (m *Machine) exceeds(r *row, successor sharding.NodeID, why sharding.Cause) limit {
	return m.budget.exceeds(m.now, &m.cfg, needOf(why), r.Owner, successor)
}

// handOffOrder is the order to the owner of a row that hands off.
func (m *Machine) handOffOrder(f RowFact) control.HandOff {
	o := control.HandOff{Term: m.term, Shard: f.Row.Shard, Epoch: f.Row.Epoch}
	if f.Next != 0 {
		o.Successor, o.Next = f.Successor, f.Next
	}
	return o
}

// reserve names the successor of a shard, if the fact that begins the handoff does not yet, and
// reserves an epoch for it, if both regions can do without the coordinator. Shards of volatile
// types have states that may be kept, and go only from one ShardStopped to the next HostShard.
func (m *Machine) reserve(t *typeTable, r *row, f *RowFact) {
	owner := m.region(r.Owner)
	if t.desc.Volatile || owner == nil || !owner.handsOver || m.counter == math.MaxUint32 || m.choiceWaits(t, r) {
		return
	}
	successor := f.Successor
	if successor.IsZero() {
		successor = m.choose(t, r, r.Owner, r.stored())
	}
	to, next := m.region(successor), sharding.MakeEpoch(m.term, m.counter+1)
	if to == nil || !to.handsOver && !mutant.On("successor-able") || next <= r.Epoch {
		return
	}
	f.Successor, f.Next, f.NextMay = successor, next, to.formsOf(t).writes
}

// choiceWaits reports whether some region can be given the shard only if the owner has not stored
// all that it may store. The owner says so when it stops, and the successor is chosen then.
func (m *Machine) choiceWaits(t *typeTable, r *row) bool {
	return !mutant.On("choice-waits") && slices.ContainsFunc(m.regions, func(o region) bool {
		return o.node != r.Owner && o.lastResort() && o.readable(t, r.before) && !o.readable(t, r.stored())
	})
}

// shardStopped: the owner has stopped the shard, ordered to or not.
func (m *Machine) shardStopped(from sharding.NodeID, in control.ShardStopped) {
	t, r := m.owned(in.Shard, from)
	if r == nil || in.Epoch < r.Epoch && !mutant.On("stopped-epoch") || !m.plausible(in.Epoch) {
		return
	}
	forms, why := m.afterStop(t, r, in.Wrote), r.cause
	if r.released {
		r.leaves = forms // it was given up before
		return
	}
	if m.release(t, r, forms) {
		return
	}
	if !mutant.On("successor-wrote") {
		forms = forms.Union(r.nextMay)
	}
	if r.Phase != sharding.HandingOff {
		why = sharding.CauseReleased
	}
	m.assign(t, r, m.choose(t, r, sharding.NodeID{}, forms), in.Epoch, forms, r.keeper(from, in), why)
}

// release has the successor claim the shard of a row at the epoch that is reserved for it, if one
// is. The owner has stopped the shard, is lost, or has had its time; something may be stored in
// these forms. It reports false if the shard must be given away at a higher epoch: there is no
// such successor, it has had its chance, or it is not the right one any more.
func (m *Machine) release(t *typeTable, r *row, forms sharding.FormSet) bool {
	if r.next == 0 || r.released {
		return false
	}
	_, comes := slices.BinarySearchFunc(m.awaited, r.successor, sharding.NodeID.Compare)
	if !comes && !m.succeeds(t, r, sharding.NodeID{}, forms) {
		return false
	}
	r.released, r.leaves, r.since = true, forms, m.now
	m.ask(r)
	return true
}

// succeeding returns the row of a shard if the node is its successor, and the epoch is the one
// that is reserved for it. Once the owner has released the shard, the node may claim it, whether
// the coordinator knows that or not.
func (m *Machine) succeeding(s sharding.ShardID, by sharding.NodeID, e sharding.Epoch) *row {
	_, r := m.find(s)
	if r == nil || r.next == 0 || r.successor != by || r.next != e && !mutant.On("next-epoch") || m.pending(r.number) {
		return nil
	}
	return r
}

// successorRefused gives the shard away at a higher epoch. The successor has stored nothing at the
// reserved one.
func (m *Machine) successorRefused(from sharding.NodeID, in control.HostRefused) {
	t, r := m.find(in.Shard)
	if in.Above < in.Epoch || !m.plausible(in.Above) {
		return // another epoch would not help; the timeout will allocate the shard
	}
	forms := r.left()
	to := m.choose(t, r, from, forms)
	if to.IsZero() {
		to = m.choose(t, r, sharding.NodeID{}, forms)
	}
	m.assign(t, r, to, in.Above, forms, r.previous, sharding.CauseClaimRefused)
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
