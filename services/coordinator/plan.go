package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
)

// Plans are made outside the core: a plan for many shards may take seconds, and the lease must be renewed meanwhile.
// The table may change while a plan is made. So a plan is only a proposal: when it arrives, each of its moves is
// checked again. The check shares no code with the planning.

// planner asks for plans, one at a time, and counts the broken constraints that they leave.
type planner struct {
	rebalanced time.Time // when a plan was last due, or came back
	plans      uint64    // the number of the last plan that was asked for, in any term
	planning   bool      // that plan was not answered
	broken     brokenConstraints
}

// Compute makes the plan. It runs in the background, outside the loop that steps the core.
func (o Plan) Compute() Planned {
	return Planned{Number: o.Number, Moves: allocation.Plan(o.Input)}
}

// plan asks for a plan, unless nothing may move now or the last plan is still being made.
func (m *Machine) plan() {
	room, _ := m.budget.Room(m.now, &m.cfg.Config)
	if m.planner.planning || room == 0 {
		return
	}
	if !m.balances() {
		m.budget.PlanEnded()
		return
	}
	in := allocation.PlanInput{Budget: room}
	for _, t := range m.table.types {
		if p := m.typePlan(t); len(p.View.Regions) >= 2 {
			in.Types = append(in.Types, p)
		}
	}
	if len(in.Types) == 0 {
		m.budget.PlanEnded()
		return
	}
	m.planner.plans++
	m.planner.planning = true
	m.emit(Plan{Number: m.planner.plans, Input: in})
}

// typePlan returns the input of a plan for one type. It shares nothing that is written to later.
func (pl *placement) typePlan(t *typeTable) allocation.TypePlan {
	v := pl.typeView(t)
	for i := range v.Regions {
		v.Regions[i].Shards = slices.Clone(v.Regions[i].Shards)
	}
	v.Forms, v.ShardLoads = t.storedForms(), slices.Clone(v.ShardLoads)
	pl.cool(t, v.ShardLoads)
	return allocation.TypePlan{View: v, InFlight: t.inFlight(), Strategy: pl.cfg.strategy(t.desc.Type)}
}

// planned begins those moves of a plan that are still valid. A plan of an earlier term is ignored,
// because regions and shards may have changed since then.
func (m *Machine) planned(in Planned) {
	// Invariant: if a move is no longer allowed when a plan arrives, or its reason is gone, the plan does not move the
	// shard.
	// Guarded by: `coordinator.planned` ignores plans of earlier terms, and checks every move again.
	// `allocation.CheckMove` checks that the move is allowed, and that the constraint which it repairs is still broken.
	// `allocation.Prefers` asks the strategy again about moves for balance and load.
	// Mutants: plan-of-earlier-term, move-checked-again, check-reason, move-still-preferred
	if !m.planner.planning || in.Number != m.planner.plans { //mutant:false plan-of-earlier-term
		return
	}
	m.planner.planning = false
	// Invariant: if planning has taken long, the next plan does not follow at once.
	// Mutants: plan-pause
	//mutant:skip plan-pause
	m.planner.rebalanced = m.now // even if the plan took long, the next plan must not follow at once
	defer m.budget.PlanEnded()
	if !m.balances() {
		return
	}
	begun := 0
	defer func() { m.why.explainPlan(&m.placement, len(in.Moves), begun) }()
	for _, t := range m.table.types {
		m.cool(t, t.shown)
	}
	var of *typeTable // that the view is of
	var v allocation.View
	for _, move := range in.Moves {
		t, r := m.table.find(move.Shard)
		if r == nil || r.Phase != sharding.Serving || m.ledger.pending(r.number) {
			continue
		}
		switch m.exceeds(r, move.To, causes[move.Reason]) {
		case budget.NoLimit:
		case budget.FromRegion, budget.ToRegion:
			continue // there may be room for another region's
		default:
			return
		}
		if t != of {
			of, v = t, m.typeView(t)
			v.Forms = t.storedForms() // no move changes them
		}
		if !m.makesSense(t, v, move) { //mutant:false move-checked-again
			continue
		}
		m.handOff(t, r, move.To, causes[move.Reason])
		begun++
		m.updateView(v, t, move)
	}
}

// makesSense reports whether a planned move may still be made, and its reason still holds. Since the
// plan was made, operators may have changed what they want, and shards may have come and gone.
func (pl *placement) makesSense(t *typeTable, v allocation.View, move allocation.Move) bool {
	if allocation.CheckMove(v, move) != nil {
		return false
	}
	switch move.Reason {
	case allocation.ReasonBalance, allocation.ReasonLoad:
		return allocation.Prefers(pl.cfg.strategy(t.desc.Type), v, move) //mutant:true move-still-preferred
	}
	return true // the constraint is still broken
}

// updateView changes a view after a move has begun: the two regions of the move have changed.
func (pl *placement) updateView(v allocation.View, t *typeTable, move allocation.Move) {
	for i := range v.Regions {
		if n := v.Regions[i].Node; n == move.From || n == move.To {
			v.Regions[i].Total, v.Regions[i].Load, v.Regions[i].Shards = pl.table.expectedShards[n], pl.loadOf(pl.live.region(n)), shardsIn(t.expected, n)
		}
	}
}

// causes are the causes for the moves of a plan, by the reason of the move.
var causes = map[allocation.Reason]sharding.Cause{
	allocation.ReasonBalance: sharding.CauseBalance, allocation.ReasonLoad: sharding.CauseLoad, allocation.ReasonPin: sharding.CausePin,
	allocation.ReasonCapacity: sharding.CauseCapacity, allocation.ReasonZone: sharding.CauseZone,
}

// balances reports whether shards may move for balance now.
func (pl *placement) balances() bool {
	//mutant:true rollout-freeze !pl.frozenByRollout()
	return pl.term.recovered && !pl.frozenByRollout() && !pl.intent.Frozen(pl.now) &&
		!pl.live.anyRegion(func(r *region) bool { return !r.reachable })
}

// storedForms returns, by the index of the shard, the forms that may be stored in the shard.
func (t *typeTable) storedForms() []sharding.FormSet {
	if len(t.forms) == 0 {
		return nil
	}
	forms := make([]sharding.FormSet, len(t.rows))
	for i := range t.rows {
		forms[i] = t.rows[i].stored()
	}
	return forms
}

// inFlight lists the shards whose moves are in progress.
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
