package coordinator

import (
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// view returns what the strategy sees of a type: the candidates that read the forms, without the node
// except. The view is valid until the next call of view.
func (pl *placement) view(t *typeTable, except sharding.NodeID, forms sharding.FormSet, candidate func(*region) bool) allocation.View {
	v := pl.scratch[:0]
	for i := range pl.live.regions {
		if r := &pl.live.regions[i]; r.node != except && r.readable(t, forms) && candidate(r) {
			v = append(v, pl.regionView(t, r))
		}
	}
	pl.scratch = v
	return allocation.View{Type: t.desc.Type, Regions: v, Pins: pl.intent.Pinned(t.desc.Type), ShardLoads: pl.shardLoads(t)}
}

// choose returns the node that is to own the shard of a row. The node reads the forms, and is not the node
// except; zero: there is no such node now. If the row has a successor, and the shard may still go to it,
// choose returns the successor; otherwise the strategy chooses. Regions that are being drained are the last
// resort: a shard is better served there than not at all.
func (pl *placement) choose(t *typeTable, r *row, except sharding.NodeID, forms sharding.FormSet) sharding.NodeID {
	if pl.succeeds(t, r, except, forms) {
		return r.successor
	}
	if !pl.term.recovered || !pl.term.open {
		return sharding.NodeID{}
	}
	v := pl.view(t, except, forms, (*region).candidate)
	if len(v.Regions) == 0 {
		v = pl.view(t, except, forms, (*region).lastResort)
	}
	v, _ = allocation.Candidates(pl.preferTarget(t, v, r.Shard), r.Shard)
	to := pl.cfg.strategy(t.desc.Type).Allocate(v, r.Shard)
	if !slices.ContainsFunc(v.Regions, func(r allocation.Region) bool { return r.Node == to }) {
		return sharding.NodeID{}
	}
	return to
}

// succeeds reports whether the shard of a row goes to the successor that was named for it. In this case a
// new coordinator need not wait until all regions have registered, because the choice is made already. If
// a rollout has begun since the successor was named, and prefers another region, succeeds returns
// false.
func (pl *placement) succeeds(t *typeTable, r *row, except sharding.NodeID, forms sharding.FormSet) bool {
	to := pl.live.region(r.successor)
	return to != nil && to.node != except && (to.candidate() && to.readable(t, forms) || mutant.On("successor-checked")) &&
		!mutant.On("successor") && pl.wanted(t, r, to, except, forms) && pl.rolloutWants(t, r, to, except, forms)
}

// wanted reports whether operators still want the successor. Since it was named, they may have pinned the
// shard to another region, or cordoned the successor. This counts only if another region satisfies the pin or
// is not cordoned. If there is no such region, a new choice would be no better. It might even fall on the
// former owner, and then the next plan would move the shard again.
func (pl *placement) wanted(t *typeTable, r *row, to *region, except sharding.NodeID, forms sharding.FormSet) bool {
	pin, cordoned := pl.intent.PinnedTo(r.Shard), pl.intent.Cordoned(to.name)
	if to.name == pin || pin == "" && !cordoned || mutant.On("successor-wanted") {
		return true
	}
	return !slices.ContainsFunc(pl.live.regions, func(o region) bool {
		better := o.name == pin && pin != "" || cordoned && !pl.intent.Cordoned(o.name)
		return better && o.node != except && o.candidate() && o.readable(t, forms)
	})
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
	f := RowFact{Row: next, Before: forms, May: tr.live.region(to).formsOf(t).writes, Previous: previous, Cause: why}
	tr.why.explainRow(&tr.placement, Given, t, r, f, to)
	tr.commit(f, Send{To: to, Msg: control.HostShard{Term: tr.term.number, Shard: next.Shard, Epoch: next.Epoch, Previous: previous, Table: tr.orderTable(t)}})
	r.asked = tr.now
}

// plausible reports whether a message that names the epoch e can have been caused by this coordinator, or
// by an earlier one. If e is higher than that, a newer coordinator exists. The highest plausible epoch is 1
// above the last one that was given out: a region that has stopped a shard at an epoch names the next one
// as the lowest at which it takes the shard again.
func (t *term) plausible(e sharding.Epoch) bool {
	return e <= sharding.MakeEpoch(t.number, t.counter)+1
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
		if r.tries >= maxDoubts && tr.exceeds(r, sharding.NodeID{}, sharding.CauseCommandsRefused) == noLimit {
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

// lost reports whether an owner counts as lost, so that its shards need not wait for it. A nil owner is not a member.
// A volatile shard waits until its owner is no longer a member.
func lost(t *typeTable, owner *region) bool {
	return owner == nil || !t.desc.Volatile && !(owner.registered && owner.reachable)
}

// reviewRows visits every row after a change of the membership, or after a request of a region or an operator. It
// allocates shards without an owner, shards that commands wait for, and shards of lost owners; it hands off shards of
// leaving owners. If this is not possible now, the row stays as it is.
func (m *Machine) reviewRows() {
	m.review.due, m.review.short, m.review.deferred, m.budget.freed, m.review.waitingForReports = false, false, false, false, false
	for _, t := range m.table.types {
		for i := range t.rows {
			switch r := &t.rows[i]; {
			case r.Epoch != 0:
				m.reviewRow(t, r)
			case r.wanted || m.ledger.lost && !t.desc.Volatile && !mutant.On("all-wanted"):
				m.allocateFirst(t, r, 0)
			}
		}
	}
	m.dropCommands()
	m.checkHosts()
}

// declared counts the shards of all types, allocated or not.
func (tab *table) declared() (n int) {
	for _, t := range tab.types {
		n += len(t.rows)
	}
	return n
}

func (tr *transit) reviewRow(t *typeTable, r *row) {
	owner, pending := tr.live.region(r.awaited()), tr.ledger.pending(r.number)
	if lost(t, owner) || tr.live.deprived(&tr.step, t, owner) {
		forms := r.stored()
		if pending {
			tr.review.deferred = true
			return
		}
		losses := r.losses
		if lost(t, owner) && !r.Owner.IsZero() && tr.term.recovered {
			if tr.waitsForReport(r) {
				return
			}
			losses = tr.withLoss(r)
		}
		if tr.release(t, r, r.left()) {
			r.losses = losses
		} else if to := tr.choose(t, r, r.awaited(), forms); !to.IsZero() {
			tr.assign(t, r, to, 0, forms, r.previous, tr.causeOfLoss(r, owner, t, to))
			r.losses = losses
		} else if owner == nil && r.Reason == 0 && tr.unreadable(t, forms) {
			tr.assign(t, r, sharding.NodeID{}, 0, forms, r.previous, sharding.CauseUnreadable)
		}
		return
	}
	r.lostSince = time.Time{}
	if r.Phase == sharding.HandingOff {
		return
	}
	why := tr.causeOfLeaving(owner)
	switch {
	case !owner.givesUpShards():
	case pending:
		tr.review.deferred = true
	case tr.exceeds(r, sharding.NodeID{}, why) != noLimit:
		tr.review.short = true
	case owner.leaving() || len(tr.view(t, r.Owner, r.stored(), (*region).candidate).Regions) > 0:
		// A region that leaves hands everything off. A region that is drained keeps
		// the shards that no other region can serve.
		tr.handOff(t, r, sharding.NodeID{}, why)
	}
}

// causeOfLoss returns the cause for allocating the shard of a row to another region without waiting for its owner. If
// the shard has no owner, and the region was here when the shard lost its owner, or may have been, it returns the
// cause of that loss.
func (pl *placement) causeOfLoss(r *row, owner *region, t *typeTable, to sharding.NodeID) sharding.Cause {
	switch {
	case r.Owner.IsZero():
		came := r.since.After(pl.term.since) && pl.live.region(to).came.After(r.since)
		if came || r.cause == 0 || r.cause == sharding.CauseUnreadable || needOf(r.cause) == voluntary {
			return sharding.CauseRegionCame
		}
		return r.cause
	case lost(t, owner):
		return sharding.CauseRegionLost
	}
	return sharding.CauseJournalCutOff
}

// causeOfLeaving returns the cause for handing off the shards of a region.
func (pl *placement) causeOfLeaving(owner *region) sharding.Cause {
	switch {
	case !owner.leaving():
		return sharding.CauseDrain
	case pl.frozenByRollout() && owner.version != pl.intent.Target().Version:
		return sharding.CauseRollout
	}
	return sharding.CauseLeave
}
