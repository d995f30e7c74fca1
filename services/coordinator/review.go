package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
)

// review records whether a review of all rows is due, and what the last one has left undone.
type review struct {
	due      bool // the rows must be reviewed: the membership has changed, or a region or an operator has sent a request
	short    bool // a review ran out of the budget
	deferred bool // a review left a row alone because its fact is not durable
	// waitingForReports is true if a review has left shards alone because reports are missing.
	waitingForReports bool
	// hostsDue is the time when the next type becomes unhosted, unless a region that hosts it registers; zero: no
	// type will.
	hostsDue time.Time
}

// reviewRows visits every row after a change of the membership, or after a request of a region or an operator. It
// allocates shards without an owner, shards that commands wait for, and shards of lost owners; it hands off shards of
// leaving owners. If this is not possible now, the row stays as it is.
func (m *Machine) reviewRows() {
	m.review.due, m.review.short, m.review.deferred, m.review.waitingForReports = false, false, false, false
	m.budget.Reviewed()
	for _, t := range m.table.types {
		for i := range t.rows {
			switch r := &t.rows[i]; {
			case r.Epoch != 0:
				m.reviewRow(t, r)
				// Invariant: if facts were lost, all shards of journaled types are allocated without a command, also in
				// later terms: their entities may have reminders and sends.
				// Guarded by: `coordinator.LossFact`: the first fact of a term that begins without facts, and of a
				// repair that drops a declaration. `Machine.reviewRows`.
				// Mutants: all-wanted, loss-stored, facts-loss
				//mutant:false all-wanted m.ledger.lost && !t.desc.Volatile
			case r.wanted || m.ledger.lost && !t.desc.Volatile:
				m.allocateFirst(t, r, 0)
			}
		}
	}
	m.dropCommands()
	m.checkHosts()
}

func (tr *transit) reviewRow(t *typeTable, r *row) {
	owner, pending := tr.live.region(r.awaited()), tr.ledger.pending(r.number)
	if lost(t, owner) || tr.deprived(t, owner) {
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
	case tr.exceeds(r, sharding.NodeID{}, why) != budget.NoLimit:
		tr.review.short = true
	case owner.leaving() || len(tr.view(t, r.Owner, r.stored(), (*region).candidate).Regions) > 0:
		// A region that leaves hands everything off. A region that is drained keeps
		// the shards that no other region can serve.
		tr.handOff(t, r, sharding.NodeID{}, why)
	}
}
