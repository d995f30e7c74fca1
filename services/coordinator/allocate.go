package coordinator

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// view is what the strategy sees of a type: the candidates that read the forms, except
// one. The view holds until the next call.
func (m *Machine) view(t *typeTable, except sharding.NodeID, forms sharding.FormSet, candidate func(*region) bool) allocation.View {
	v := m.scratch[:0]
	for i := range m.regions {
		if r := &m.regions[i]; r.node != except && r.readable(t, forms) && candidate(r) {
			v = append(v, m.regionView(t, r))
		}
	}
	m.scratch = v
	return allocation.View{Type: t.desc.Type, Regions: v, Pins: t.pinsOf(), ShardLoads: m.shardLoads(t)}
}

// choose returns an owner for a row, other than except, that reads the forms; the zero node
// says that there is none now. It is the successor that a plan has named, or the region that the
// strategy chooses. Regions that are being drained are the last resort: a shard is better
// served there than not at all.
func (m *Machine) choose(t *typeTable, r *row, except sharding.NodeID, forms sharding.FormSet) sharding.NodeID {
	if m.succeeds(t, r, except, forms) {
		return r.successor
	}
	if !m.recovered || !m.open {
		return sharding.NodeID{}
	}
	v := m.view(t, except, forms, (*region).candidate)
	if len(v.Regions) == 0 {
		v = m.view(t, except, forms, (*region).lastResort)
	}
	v, _ = allocation.Candidates(m.preferTarget(t, v, r.Shard), r.Shard, sharding.NodeID{})
	to := m.cfg.strategy(t.desc.Type).Allocate(v, r.Shard)
	if !slices.ContainsFunc(v.Regions, func(r allocation.Region) bool { return r.Node == to }) {
		return sharding.NodeID{}
	}
	return to
}

// succeeds reports whether a row goes to the successor that was named for it. A new term does
// not wait for other regions then: the choice was made when they were here. In a rollout a plan
// made before it no longer counts.
func (m *Machine) succeeds(t *typeTable, r *row, except sharding.NodeID, forms sharding.FormSet) bool {
	to := m.region(r.successor)
	return to != nil && to.node != except && (to.candidate() && to.readable(t, forms) || mutant.On("successor-checked")) &&
		!mutant.On("successor") && m.wanted(t, r, to, except, forms) && m.rolloutWants(t, r, to, except, forms)
}

// wanted reports whether a successor is still what operators want: since it was named, they may
// have pinned the shard elsewhere, or cordoned the region. That counts only if another region
// keeps it. Otherwise the strategy would choose anew, might choose the former owner, and the
// next plan would move the shard again.
func (m *Machine) wanted(t *typeTable, r *row, to *region, except sharding.NodeID, forms sharding.FormSet) bool {
	pin, cordoned := t.pin(r.Shard), m.cordoned(to.name)
	if to.name == pin || pin == "" && !cordoned || mutant.On("successor-wanted") {
		return true
	}
	return !slices.ContainsFunc(m.regions, func(o region) bool {
		better := o.name == pin && pin != "" || cordoned && !m.cordoned(o.name)
		return better && o.node != except && o.candidate() && o.readable(t, forms)
	})
}

// assign gives the shard to a node, or to nobody, at a new epoch that is above both
// the row's and the given one. The forms are those in which something may be stored; previous
// has the states of the entities, if somebody has kept them; why is the cause.
func (m *Machine) assign(t *typeTable, r *row, to sharding.NodeID, above sharding.Epoch, forms sharding.FormSet, previous control.Previous, why sharding.Cause) {
	was := r.Reason == sharding.Unreadable
	counter := m.counter
	if above.Term() == m.term {
		counter = max(counter, above.Counter())
	}
	if counter == math.MaxUint32 {
		return // the term has no epochs left; the next term has
	}
	next := sharding.Row{Shard: r.Shard, Owner: to, Epoch: sharding.MakeEpoch(m.term, counter+1), Phase: sharding.Starting}
	if next.Epoch <= r.Epoch || next.Epoch <= above {
		return // a newer coordinator has allocated it: this term is over
	}
	if to.IsZero() {
		next.Reason = m.reason(t, forms)
		f := RowFact{Row: next, Before: forms, Successor: r.successor, Previous: previous, Cause: why}
		m.decideRow(Given, t, r, f, to)
		m.commit(f)
		if next.Reason == sharding.Unreadable && !was {
			r.untold, m.untold = true, true
		}
		return
	}
	f := RowFact{Row: next, Before: forms, May: m.region(to).formsOf(t).writes, Previous: previous, Cause: why}
	m.decideRow(Given, t, r, f, to)
	m.commit(f, Send{To: to, Msg: control.HostShard{Term: m.term, Shard: next.Shard, Epoch: next.Epoch, Previous: previous}})
	r.asked = m.now
}

// plausible reports whether a message can name an epoch although no newer coordinator
// exists. If e is the last epoch that was given out, that is true up to e+1, because a
// region that has stopped a shard at e takes it up again from e+1 on.
func (m *Machine) plausible(e sharding.Epoch) bool {
	return e <= sharding.MakeEpoch(m.term, m.counter)+1
}

// getShardHome handles a GetShardHome. A shard that was never allocated is allocated. If the
// owner of a shard has refused a command, it is asked whether it serves the shard.
func (m *Machine) getShardHome(in control.GetShardHome) {
	t, r := m.find(in.Shard)
	switch {
	case r == nil || !m.plausible(in.Refused):
	case r.Epoch == 0:
		if to := m.choose(t, r, sharding.NodeID{}, ""); !to.IsZero() {
			m.assign(t, r, to, in.Refused, "", control.Previous{}, sharding.CauseFirstCommand)
		}
	case r.Phase == sharding.Serving && in.Refused >= r.Epoch && !m.pending(r.number) && m.now.Sub(r.asked) >= m.cfg.Resend:
		if r.tries >= maxDoubts && m.exceeds(r, sharding.NodeID{}, sharding.CauseCommandsRefused) == noLimit {
			m.handOff(t, r, sharding.NodeID{}, sharding.CauseCommandsRefused)
			return
		}
		r.tries = min(r.tries+1, maxDoubts)
		r.asked = m.now
		m.send(r.Owner, control.HostShard{Term: m.term, Shard: r.Shard, Epoch: r.Epoch})
	}
}

// lost reports whether waiting for the owner of a row is pointless. A nil owner is no member.
// A volatile shard waits until its owner is no longer a member.
func lost(t *typeTable, owner *region) bool {
	return owner == nil || !t.desc.Volatile && !(owner.registered && owner.reachable)
}

// sweep visits every allocated row after a change of the membership, or after a request of a
// region or an operator. Shards without an owner and shards of lost owners are allocated;
// shards of leaving owners are handed off. A row for which that is not possible now stays as
// it is.
func (m *Machine) sweep() {
	m.sweepDue, m.short, m.deferred, m.budget.freed = false, false, false, false
	for _, t := range m.types {
		for i := range t.rows {
			if r := &t.rows[i]; r.Epoch != 0 {
				m.sweepRow(t, r)
			}
		}
	}
	m.dropCommands()
	m.checkHosts()
}

func (m *Machine) sweepRow(t *typeTable, r *row) {
	owner, pending := m.region(r.awaited()), m.pending(r.number)
	if lost(t, owner) || m.deprived(t, owner) {
		forms := r.stored()
		if pending {
			m.deferred = true
		} else if m.release(t, r, r.left()) {
			return
		} else if to := m.choose(t, r, r.awaited(), forms); !to.IsZero() {
			m.assign(t, r, to, 0, forms, r.previous, causeOfLoss(r, owner, t))
		} else if owner == nil && r.Reason == 0 && m.unreadable(t, forms) {
			m.assign(t, r, sharding.NodeID{}, 0, forms, r.previous, sharding.CauseUnreadable)
		}
		return
	}
	if r.Phase == sharding.HandingOff {
		return
	}
	why := m.causeOfLeaving(owner)
	switch {
	case !owner.leaves():
	case pending:
		m.deferred = true
	case m.exceeds(r, sharding.NodeID{}, why) != noLimit:
		m.short = true
	case owner.going || owner.leaving || len(m.view(t, r.Owner, r.stored(), (*region).candidate).Regions) > 0:
		// A region that leaves hands everything off. One that is drained keeps
		// what no other region could serve.
		m.handOff(t, r, sharding.NodeID{}, why)
	}
}

// causeOfLoss says why the shard of a row is allocated to another region without waiting for its
// owner.
func causeOfLoss(r *row, owner *region, t *typeTable) sharding.Cause {
	switch {
	case r.Owner.IsZero():
		return sharding.CauseRegionCame
	case lost(t, owner):
		return sharding.CauseRegionLost
	}
	return sharding.CauseJournalCutOff
}

// causeOfLeaving says why the shards of a region are handed off.
func (m *Machine) causeOfLeaving(owner *region) sharding.Cause {
	switch {
	case !owner.going && !owner.leaving:
		return sharding.CauseDrain
	case m.frozen() && owner.version != m.target.Version:
		return sharding.CauseRollout
	}
	return sharding.CauseLeave
}
