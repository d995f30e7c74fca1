package coordinator

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A direct handoff can complete without a coordinator. The fact that begins the handoff names the
// successor, and reserves an epoch for the successor. The order to the owner names both. When the owner
// has released the shard, it sends HostShard to the successor itself, and the successor claims the shard
// at the reserved epoch. The coordinator of that time only has to store the fact that the successor
// serves the shard. The shard never goes back to the old owner at the old epoch. Every later epoch of the
// shard is above the reserved epoch, so the fence refuses a successor that comes too late.

// handOff begins a handoff: it orders the owner to stop the shard, which then goes to the successor. If the
// parameter successor is zero, a successor is chosen, now or when the owner has stopped the shard. The
// parameter why is the cause. The row cannot go back to serving at the same epoch.
func (m *Machine) handOff(t *typeTable, r *row, successor sharding.NodeID, why sharding.Cause) {
	next := r.Row
	next.Phase = sharding.HandingOff
	f := r.fact(next)
	f.Successor, f.Cause = successor, why
	m.reserve(t, r, &f)
	m.explainRow(HandedOff, t, r, f, f.Successor)
	m.commit(f, Send{To: next.Owner, Msg: m.handOffOrder(t, f)})
	r.asked = m.now
	if needOf(why) == voluntary {
		m.budget.moveBegan(m.now, &m.cfg)
	}
}

// exceeds returns the limit of the budget that the handoff of a row would exceed now.
func (m *Machine) exceeds(r *row, successor sharding.NodeID, why sharding.Cause) limit {
	return m.budget.exceeds(m.now, &m.cfg, needOf(why), r.Owner, successor)
}

// handOffOrder returns the order to the owner of a row that is handing off.
func (m *Machine) handOffOrder(t *typeTable, f RowFact) control.HandOff {
	o := control.HandOff{Term: m.number, Shard: f.Row.Shard, Epoch: f.Row.Epoch}
	if f.Next != 0 {
		o.Successor, o.Next, o.Table = f.Successor, f.Next, m.orderTable(t)
	}
	return o
}

// reserve makes a handoff direct, if a successor is known when it begins: it adds the successor, if none is
// named, and a reserved epoch to the fact that begins the handoff. Handoffs of volatile types are never
// direct: the next HostShard of such a shard names the region that has kept the states, and the coordinator
// knows this region only from ShardStopped.
func (m *Machine) reserve(t *typeTable, r *row, f *RowFact) {
	if t.desc.Volatile || m.counter == math.MaxUint32 || m.choiceWaits(t, r) {
		return
	}
	successor := f.Successor
	if successor.IsZero() {
		successor = m.choose(t, r, r.Owner, r.stored())
	}
	to, next := m.region(successor), sharding.MakeEpoch(m.number, m.counter+1)
	if to == nil || next <= r.Epoch {
		return
	}
	f.Successor, f.Next, f.NextMay = successor, next, to.formsOf(t).writes
}

// choiceWaits reports whether the choice of a successor must wait until the owner has stopped the shard. This is so
// if some region does not read all forms that the owner may store. ShardStopped lists the forms that the owner has
// stored, so perhaps the region can take the shard after all.
func (m *Machine) choiceWaits(t *typeTable, r *row) bool {
	return !mutant.On("choice-waits") && slices.ContainsFunc(m.regions, func(o region) bool {
		return o.node != r.Owner && o.lastResort() && o.readable(t, r.before) && !o.readable(t, r.stored())
	})
}

// shardStopped handles a ShardStopped: the owner has stopped the shard, by an order or of its own accord.
func (m *Machine) shardStopped(from sharding.NodeID, in control.ShardStopped) {
	t, r := m.owned(in.Shard, from)
	if r == nil || in.Epoch < r.Epoch && !mutant.On("stopped-epoch") || !m.plausible(in.Epoch) {
		return
	}
	forms, why := m.afterStop(t, r, in.Wrote), r.cause
	if r.released {
		r.leaves = forms // the successor may claim the shard already, because the owner had not answered in time
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

// release lets the successor of a row claim the shard at the reserved epoch. It is called when the owner has
// stopped the shard, is lost, or has not stopped the shard in time. The forms are those in which something
// may be stored by then. If there is no reserved epoch, if the successor was told to claim the shard
// before, or if the shard must not go to this successor any more, release returns false: then another owner
// must be chosen, at a higher epoch.
func (m *Machine) release(t *typeTable, r *row, forms sharding.FormSet) bool {
	if r.next == 0 || r.released {
		return false
	}
	_, comes := slices.BinarySearchFunc(m.awaited, r.successor, sharding.NodeID.Compare)
	if !comes && !m.succeeds(t, r, sharding.NodeID{}, forms) {
		return false
	}
	r.released, r.leaves, r.since = true, forms, m.now
	m.sendOrder(t, r)
	return true
}

// succeeding returns the row of a shard if the node is the shard's successor and e is the reserved epoch.
// Once the owner has released the shard, the successor may claim it, even if the coordinator does not know
// of the release yet. So the row need not be marked as released.
func (m *Machine) succeeding(s sharding.ShardID, by sharding.NodeID, e sharding.Epoch) *row {
	_, r := m.find(s)
	if r == nil || r.next == 0 || r.successor != by || r.next != e && !mutant.On("next-epoch") || m.pending(r.number) {
		return nil
	}
	return r
}

// successorRefused gives the shard to another owner at a higher epoch. The successor has stored nothing at
// the reserved epoch.
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

// gracefulShutdown notes that the region has asked for its shards to be taken. The review of the rows at
// the end of the Step begins the handoffs. Each repeat is answered with the number of shards that are
// left.
func (m *Machine) gracefulShutdown(node sharding.NodeID, call control.Call) {
	if r := m.region(node); r != nil && !r.shutdown {
		r.shutdown, m.due = true, true
		m.holdNames(&m.step)
	}
	m.reply(call, control.ShutdownAck{Term: m.number, Remaining: m.shardsOf(node)})
}

// shardsOf counts the rows that name the node as owner, in any phase.
func (tab *table) shardsOf(node sharding.NodeID) int {
	n := 0
	for _, t := range tab.types {
		n += len(t.shardsOf(node))
	}
	return n
}
