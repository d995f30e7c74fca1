package coordinator

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
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
func (tr *transit) handOff(t *typeTable, r *row, successor sharding.NodeID, why sharding.Cause) {
	next := r.Row
	next.Phase = sharding.HandingOff
	f := r.fact(next)
	f.Successor, f.Cause = successor, why
	tr.reserve(t, r, &f)
	tr.why.explainRow(&tr.placement, HandedOff, t, r, f, f.Successor)
	tr.commit(f, Send{To: next.Owner, Msg: tr.handOffOrder(t, f)})
	r.asked = tr.now
	if budget.NeedOf(why) == budget.Voluntary {
		tr.budget.MoveBegan(tr.now, &tr.cfg.Config)
	}
}

// handOffOrder returns the order to the owner of a row that is handing off.
func (tr *transit) handOffOrder(t *typeTable, f RowFact) control.HandOff {
	o := control.HandOff{Term: tr.term.number, Shard: f.Row.Shard, Epoch: f.Row.Epoch}
	if f.Next != 0 {
		o.Successor, o.Next, o.Table = f.Successor, f.Next, tr.orderTable(t)
	}
	return o
}

// reserve makes a handoff direct, if a successor is known when it begins: it adds the successor, if none is
// named, and a reserved epoch to the fact that begins the handoff. Handoffs of volatile types are never
// direct: the next HostShard of such a shard names the region that has kept the states, and the coordinator
// knows this region only from ShardStopped.
func (tr *transit) reserve(t *typeTable, r *row, f *RowFact) {
	if t.desc.Volatile || tr.term.counter == math.MaxUint32 || tr.choiceWaits(t, r) {
		return
	}
	successor := f.Successor
	if successor.IsZero() {
		successor = tr.choose(t, r, r.Owner, r.stored())
	}
	to, next := tr.live.region(successor), sharding.MakeEpoch(tr.term.number, tr.term.counter+1)
	if to == nil || next <= r.Epoch {
		return
	}
	f.Successor, f.Next, f.NextMay = successor, next, to.formsOf(t.desc.Type).writes
}

// shardStopped handles a ShardStopped: the owner has stopped the shard, by an order or of its own accord.
func (tr *transit) shardStopped(from sharding.NodeID, in control.ShardStopped) {
	t, r := tr.owned(in.Shard, from)
	// Invariant: a served shard moves in four cases only. (1) The owner has released the shard. (2) The owner is gone.
	// (3) The owner has reported that it is cut off from the journal. (4) The type is journaled, and the owner has not
	// released the shard in time (`HandoffTimeout`).
	// Mutants: stopped-epoch, recovery-wait
	if r == nil || in.Epoch < r.Epoch || !tr.term.plausible(in.Epoch) { //mutant:false stopped-epoch in.Epoch < r.Epoch
		return
	}
	forms, why := tr.afterStop(t, r, in.Wrote), r.cause
	if r.released {
		r.leaves = forms // the successor may claim the shard already, because the owner had not answered in time
		return
	}
	if tr.release(t, r, forms) {
		return
	}
	forms = forms.Union(r.nextMay) //mutant:skip successor-wrote
	if r.Phase != sharding.HandingOff {
		why = sharding.CauseReleased
	}
	tr.assign(t, r, tr.choose(t, r, sharding.NodeID{}, forms), in.Epoch, forms, r.keeper(from, in), why)
}

// release lets the successor of a row claim the shard at the reserved epoch. It is called when the owner has
// stopped the shard, is lost, or has not stopped the shard in time. The forms are those in which something
// may be stored by then. If there is no reserved epoch, if the successor was told to claim the shard
// before, or if the shard must not go to this successor any more, release returns false: then another owner
// must be chosen, at a higher epoch.
func (tr *transit) release(t *typeTable, r *row, forms sharding.FormSet) bool {
	if r.next == 0 || r.released {
		return false
	}
	_, comes := slices.BinarySearchFunc(tr.term.awaited, r.successor, sharding.NodeID.Compare)
	if !comes && !tr.succeeds(t, r, sharding.NodeID{}, forms) {
		return false
	}
	r.released, r.leaves, r.since = true, forms, tr.now
	tr.sendOrder(t, r)
	return true
}

// successorRefused gives the shard to another owner at a higher epoch. The successor has stored nothing at
// the reserved epoch.
func (tr *transit) successorRefused(from sharding.NodeID, in control.HostRefused) {
	t, r := tr.table.find(in.Shard)
	if in.Above < in.Epoch || !tr.term.plausible(in.Above) {
		return // another epoch would not help; the timeout will allocate the shard
	}
	forms := r.left()
	to := tr.choose(t, r, from, forms)
	if to.IsZero() {
		to = tr.choose(t, r, sharding.NodeID{}, forms)
	}
	tr.assign(t, r, to, in.Above, forms, r.previous, sharding.CauseClaimRefused)
}

// gracefulShutdown notes that the region has asked for its shards to be taken. The review of the rows at
// the end of the Step begins the handoffs. Each repeat is answered with the number of shards that are
// left.
func (m *Machine) gracefulShutdown(node sharding.NodeID, call control.Call) {
	if r := m.live.region(node); r != nil && !r.shutdown {
		r.shutdown, m.review.due = true, true
		m.live.holdNames(&m.step)
	}
	m.reply(call, control.ShutdownAck{Term: m.term.number, Remaining: m.table.shardsOf(node)})
}
