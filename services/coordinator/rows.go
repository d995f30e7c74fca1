package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// quickTries is the number of times in succession that a shard is allocated anew at once after its owner has refused
// it. One refusal is normal, and two happen when claims overtake each other. After more refusals the coordinator
// waits, as for an owner that does not answer.
const quickTries = 3

// maxDoubts bounds the number of times that the coordinator asks the owner of a serving row about refused commands
// before it hands the shard off. A gateway that was refused at an epoch never uses that epoch again, so an owner that
// keeps the epoch would get no commands.
const maxDoubts = 5

// owned returns the row of a shard if the node is its owner according to a durable fact. Before the fact is
// durable, the node cannot have heard of it, so its message is about something else and is ignored. The
// node repeats the message when it gets the order again.
func (pl *placement) owned(s sharding.ShardID, by sharding.NodeID) (*typeTable, *row) {
	t, r := pl.table.find(s)
	if r == nil || by.IsZero() || r.Owner != by || pl.ledger.pending(r.number) {
		return nil, nil
	}
	return t, r
}

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
	if r == nil || r.Epoch != in.Epoch && !mutant.On("started-epoch") || r.Phase != sharding.Starting {
		return // a repeat, or superseded
	}
	next := r.Row
	next.Phase = sharding.Serving
	tr.commit(r.fact(next))
}

// willSayWhatItWrote reports whether the coordinator must wait for the ShardStopped of the old owner before
// it stores that the successor serves the shard. ShardStopped says in which forms the old owner has stored
// something, and may come after the ShardStarted of the successor. If it were ignored, all forms that the
// old owner writes would count as stored permanently, and regions that do not read them could never get the
// shard. If the old owner writes no further forms, or cannot answer, there is nothing to wait for.
func (pl *placement) willSayWhatItWrote(r *row) bool {
	owner := pl.live.region(r.Owner)
	return !r.released && owner != nil && owner.registered && owner.reachable && r.left() != r.before && !mutant.On("wrote-awaited")
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
	if r.Phase == sharding.Starting || mutant.On("refused-while-serving") {
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
			if tr.now.Sub(r.asked) >= tr.cfg.Resend && tr.live.region(r.awaited()) != nil && !mutant.On("order-repeated") {
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
