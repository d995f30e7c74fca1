package coordinator

import (
	"math"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
	"github.com/roost-cluster/roost/services/coordinator/internal/quarantine"
)

// transit moves rows through their life: it makes the facts that give a shard to a region or take it away, sends the
// orders, repeats them, and keeps the budget of handoffs. Everything that facts change is changed here, in method commit.
type transit struct {
	placement
	why        why
	quarantine quarantine.Quarantine
	budget     budget.Budget
	review     review
}

// assign gives the shard to a node at a new epoch. If to is zero, the row gets no owner. The epoch is above
// both the epoch of the row and the parameter above. The forms are those in which something may be stored.
// The parameter previous names the region that has kept the states of the entities, if one has. The
// parameter why is the cause.
func (tr *transit) assign(t *typeTable, r *row, to sharding.NodeID, above sharding.Epoch, forms sharding.FormSet, previous control.Previous, why sharding.Cause) {
	was := r.Reason == sharding.Unreadable
	counter := tr.term.counter
	if above.Term() == tr.term.number {
		counter = max(counter, above.Counter())
	}
	if counter == math.MaxUint32 {
		return // the term has no epochs left: the next term allocates the shard
	}
	next := sharding.Row{Shard: r.Shard, Owner: to, Epoch: sharding.MakeEpoch(tr.term.number, counter+1), Phase: sharding.Starting}
	if next.Epoch <= r.Epoch || next.Epoch <= above {
		return // a newer coordinator has allocated it: this term is over
	}
	if to.IsZero() {
		next.Reason = tr.reason(t, forms)
		f := RowFact{Row: next, Before: forms, Successor: r.successor, Previous: previous, Cause: why}
		tr.why.explainRow(&tr.placement, Given, t, r, f, to)
		tr.commit(f)
		if next.Reason == sharding.Unreadable && !was {
			r.untold, tr.table.untold = true, true
		}
		return
	}
	f := RowFact{Row: next, Before: forms, May: tr.live.region(to).formsOf(t.desc.Type).writes, Previous: previous, Cause: why}
	tr.why.explainRow(&tr.placement, Given, t, r, f, to)
	tr.commit(f, Send{To: to, Msg: control.HostShard{Term: tr.term.number, Shard: next.Shard, Epoch: next.Epoch, Previous: previous, Table: tr.orderTable(t)}})
	r.asked = tr.now
}

// getShardHome handles a GetShardHome. A shard that was never allocated is allocated. If the message reports a
// command that the owner refused, the owner gets HostShard again, and answers whether it serves the shard.
func (tr *transit) getShardHome(in control.GetShardHome) {
	t, r := tr.table.find(in.Shard)
	switch {
	case r == nil || !tr.term.plausible(in.Refused):
	case r.Epoch == 0:
		tr.allocateFirst(t, r, in.Refused)
	case r.Phase == sharding.Serving && in.Refused >= r.Epoch && !tr.ledger.pending(r.number) && tr.now.Sub(r.asked) >= tr.cfg.Resend:
		if r.tries >= maxDoubts && tr.exceeds(r, sharding.NodeID{}, sharding.CauseCommandsRefused) == budget.NoLimit {
			tr.handOff(t, r, sharding.NodeID{}, sharding.CauseCommandsRefused)
			return
		}
		r.tries = min(r.tries+1, maxDoubts)
		r.asked = tr.now
		tr.send(r.Owner, control.HostShard{Term: tr.term.number, Shard: r.Shard, Epoch: r.Epoch, Table: tr.orderTable(t)})
	}
}

// allocateFirst allocates a shard that was never allocated. If no region can have it yet, the review
// that follows as soon as one can allocates it: the gateway would ask again only after a while.
func (tr *transit) allocateFirst(t *typeTable, r *row, above sharding.Epoch) {
	to := tr.choose(t, r, sharding.NodeID{}, "")
	r.wanted = to.IsZero() && above == 0
	if !to.IsZero() {
		tr.assign(t, r, to, above, "", control.Previous{}, sharding.CauseFirstCommand)
	}
}

// quickTries is the number of times in succession that a shard is allocated anew at once after its owner has refused
// it. One refusal is normal, and two happen when claims overtake each other. After more refusals the coordinator
// waits, as for an owner that does not answer.
const quickTries = 3

// maxDoubts bounds the number of times that the coordinator asks the owner of a serving row about refused commands
// before it hands the shard off. A gateway that was refused at an epoch never uses that epoch again, so an owner that
// keeps the epoch would get no commands.
const maxDoubts = 5

// shardStarted handles a ShardStarted: the claim holds, so gateways may send commands.
func (tr *transit) shardStarted(from sharding.NodeID, in control.ShardStarted) {
	if r := tr.succeeding(in.Shard, from, in.Epoch); r != nil {
		if tr.willSayWhatItWrote(r) {
			return // after the ShardStopped of the owner, the successor gets its order again and repeats ShardStarted
		}
		f := RowFact{Row: sharding.Row{Shard: r.Shard, Owner: from, Epoch: r.next, Phase: sharding.Serving}, Before: r.left(), May: r.nextMay, Cause: r.cause}
		t, _ := tr.table.find(r.Shard)
		tr.why.explainRow(&tr.placement, Given, t, r, f, from)
		tr.commit(f)
		return
	}
	_, r := tr.owned(in.Shard, from)
	// Invariant: a row is `serving` in two cases only: the owner has claimed the shard, or the owner has found the
	// shard's fence damaged and refuses every command.
	// Mutants: started-epoch
	//mutant:false started-epoch r.Epoch != in.Epoch
	if r == nil || r.Epoch != in.Epoch || r.Phase != sharding.Starting {
		return // a repeat, or superseded
	}
	next := r.Row
	next.Phase = sharding.Serving
	tr.commit(r.fact(next))
}

// hostRefused handles a HostRefused: no region can serve the shard at this epoch, so it gets a higher one. The row
// may be serving: after a refused command, the coordinator asks its owner.
func (tr *transit) hostRefused(from sharding.NodeID, in control.HostRefused) {
	if tr.succeeding(in.Shard, from, in.Epoch) != nil {
		tr.successorRefused(from, in)
		return
	}
	t, r := tr.owned(in.Shard, from)
	if r == nil || r.Epoch != in.Epoch || r.Phase == sharding.HandingOff || !tr.term.plausible(in.Above) {
		return
	}
	if r.Phase == sharding.Starting && (in.Above < in.Epoch || r.tries >= quickTries) {
		return // another epoch would not help; after the timeout, the shard is allocated to another region
	}
	forms := r.stored()
	// Invariant: if an owner refuses a shard before serving it, the forms of this owner do not count for the shard. If
	// the owner has served the shard, the forms of this owner count. They count even if the owner gets the same order
	// again and refuses it.
	// Guarded by: `coordinator.hostRefused`. `region.hostShard` does not refuse a shard that the region holds, even
	// when the region leaves.
	// Mutants: refused-while-serving, refused-while-held
	//mutant:true refused-while-serving
	if r.Phase == sharding.Starting {
		forms = r.before // a region refuses no shard that it holds, so it stored nothing at this epoch
	}
	to := tr.choose(t, r, r.Owner, forms)
	if to.IsZero() {
		to = tr.choose(t, r, sharding.NodeID{}, forms)
	}
	tr.assign(t, r, to, in.Above, forms, r.previous, sharding.CauseClaimRefused)
}

// sendOrder sends the order that belongs to the row's phase to its owner, or to the successor.
func (tr *transit) sendOrder(t *typeTable, r *row) {
	if !inTransit(r.Row) {
		return
	}
	r.asked = tr.now
	switch {
	case r.released:
		tr.send(r.successor, control.HostShard{Term: tr.term.number, Shard: r.Shard, Epoch: r.next, Table: tr.orderTable(t)})
	case r.Phase == sharding.HandingOff:
		tr.send(r.Owner, tr.handOffOrder(t, r.fact(r.Row)))
	default:
		tr.send(r.Owner, control.HostShard{Term: tr.term.number, Shard: r.Shard, Epoch: r.Epoch, Previous: r.previous, Table: tr.orderTable(t)})
	}
}

// repeat visits the rows whose owner has not answered its order. It repeats the order. After
// the timeout it allocates the shard to another region; if there is none, it continues
// repeating the order, so that a slow claim can succeed.
func (tr *transit) repeat() {
	for _, t := range tr.table.types {
		for i, left := 0, t.transit; i < len(t.rows) && left > 0; i++ {
			r := &t.rows[i]
			if !inTransit(r.Row) {
				continue
			}
			left--
			if tr.ledger.pending(r.number) {
				r.since, r.asked = tr.now, tr.now // the order has not been sent yet
				continue
			}
			if tr.overdue(t, r) {
				if tr.release(t, r, r.left()) {
					continue
				}
				if to := tr.choose(t, r, r.awaited(), r.stored()); !to.IsZero() {
					tr.assign(t, r, to, 0, r.stored(), r.previous, causeOfDelay(r))
					continue
				}
			}
			//mutant:false order-repeated
			if tr.now.Sub(r.asked) >= tr.cfg.Resend && tr.live.region(r.awaited()) != nil {
				tr.sendOrder(t, r)
			}
		}
	}
}

// overdue reports whether the region that was given an order has not answered in time, and another may be given
// the shard. A volatile shard that was served is never taken away without ShardStopped.
func (tr *transit) overdue(t *typeTable, r *row) bool {
	if !r.lostSince.IsZero() && tr.waitsForReport(r) {
		return false
	}
	if r.Phase == sharding.HandingOff && !r.released {
		return !t.desc.Volatile && tr.now.Sub(r.since) >= tr.cfg.HandoffTimeout+tr.cfg.HandoffSlack
	}
	return tr.now.Sub(r.since) >= tr.cfg.HostTimeout<<min(time.Duration(r.tries), 2)
}

// causeOfDelay returns the step that the owner of an overdue row has not done, as a cause.
func causeOfDelay(r *row) sharding.Cause {
	if r.Phase == sharding.HandingOff && !r.released {
		return sharding.CauseNotReleased
	}
	return sharding.CauseNotClaimed
}

// exceeds returns the limit of the budget that the handoff of a row would exceed now.
func (tr *transit) exceeds(r *row, successor sharding.NodeID, why sharding.Cause) budget.Limit {
	return tr.budget.Exceeds(tr.now, &tr.cfg.Config, budget.NeedOf(why), r.Owner, successor)
}
