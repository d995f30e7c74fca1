package coordinator

import (
	"cmp"
	"fmt"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
)

// PlanQuery asks which shards a plan would move.
type PlanQuery struct {
	// Type is the only type to plan for; "": all types.
	Type sharding.EntityType
	// Without are regions that the plan treats as leaving, by name or address.
	Without []string
	// Strategy replaces the configured strategies; nil: the configured strategies are used.
	Strategy allocation.Strategy
}

// Proposal is the input for the answer to a [PlanQuery].
type Proposal struct {
	Input allocation.PlanInput
	// HeldBack has sentences that say why fewer moves, or none, can begin now.
	HeldBack []string
}

// Propose returns the input of a plan made now, for [allocation.Propose]. It changes nothing. If no voluntary move
// may begin now, the input has the budget of a cluster without handoffs. So the answer shows the moves that are held
// back. A rollout is an exception: after it, nearly all shards are elsewhere. So while it freezes moves, only shards
// of regions that leave are planned.
func (m *Machine) Propose(q PlanQuery) (Proposal, error) {
	for _, name := range q.Without {
		r, err := m.live.findRegion(name)
		if err != nil {
			return Proposal{}, err
		}
		if err := m.live.mayPlanWithout(r); err != nil {
			return Proposal{}, err
		}
	}
	types := m.table.types
	if q.Type != "" {
		t, err := m.table.findType(q.Type)
		if err != nil {
			return Proposal{}, err
		}
		types = []*typeTable{t}
	}
	p := m.proposal()
	for _, t := range types {
		plan := m.typePlan(t)
		plan.View.Unsettled, plan.Target = m.frozenByRollout(), m.rolloutTarget()
		p.Input.Types = append(p.Input.Types, plan)
	}
	p.suppose(q, m.live.measured(&m.step))
	return p, nil
}

// proposal returns a proposal that is made now, without any type.
func (m *Machine) proposal() Proposal {
	room, _ := m.budget.Room(m.now, &m.cfg.Config)
	return Proposal{Input: allocation.PlanInput{Budget: cmp.Or(room, m.cfg.MaxHandoffs)}, HeldBack: m.heldBack()}
}

// suppose changes what a plan is made from as a question wants it: the strategy is another one, and
// regions leave.
func (p *Proposal) suppose(q PlanQuery, measured bool) {
	for i := range p.Input.Types {
		t := &p.Input.Types[i]
		if q.Strategy != nil {
			t.Strategy = q.Strategy
		}
		if allocation.GoesByLoad(t.Strategy) && !measured {
			p.HeldBack = append(p.HeldBack, fmt.Sprintf("no shard of %s moves because of its load: not every region has reported its load twice, with a recent last report", t.View.Type))
		}
		for i := range t.View.Regions {
			r := &t.View.Regions[i]
			// Invariant: `roost placement plan --without` shows the destinations of a region's shards when it leaves,
			// also in a rollout, as long as nothing else happens.
			// Guarded by: `coordinator.Propose` takes the pins, cordons and the rollout into account.
			// `allocation.Propose` chooses regions as `coordinator.choose` does, in the same order.
			// Mutants: plan-without, plan-steering, plan-target
			if isNamed(r.Node, r.Name, q.Without) { //mutant:false plan-without
				r.Status = allocation.Leaving
			}
		}
		//mutant:do plan-steering t.View.Pins = nil
		//mutant:do plan-target t.Target = allocation.Target{}
	}
}

// mayPlanWithout returns an error if no plan can assume now that a region leaves. That is so if the
// region is in no view of a type.
func (l *liveness) mayPlanWithout(r *region) error {
	name := cmp.Or(r.name, r.node.Addr)
	switch {
	case !r.registered:
		return refuse(NotNow, "%s has not registered yet; try again when roost cluster status shows its shards", name)
	case l.holder(r) != nil:
		return refuse(NotNow, "%s is in no plan, because another region has its name; give each a node.name of its own", name)
	case r.cutOff() || r.recovering():
		return refuse(NotNow, "%s does not reach the journal, or has reached it again only recently, and is in no plan; look at its log", name)
	}
	return nil
}

// heldBack returns the reasons why fewer moves, or none, can begin now.
func (m *Machine) heldBack() (why []string) {
	if !m.term.recovered {
		why = append(why, fmt.Sprintf("nothing moves yet: the coordinator has just become active and waits for the regions for up to %v", m.cfg.RecoveryWait))
	}
	if m.intent.Frozen(m.now) {
		f := m.intent.Freeze()
		why = append(why, fmt.Sprintf("nothing moves: %s froze all moves of shards that can stay%s; see roost placement freeze --undo", who(f.By), because(f.Reason)))
	}
	if m.frozenByRollout() {
		why = append(why, fmt.Sprintf("nothing moves for balance: a rollout to version %s is on; see roost rollout status", m.intent.Target().Version))
	}
	for i := range m.live.regions {
		switch r := &m.live.regions[i]; {
		case !r.reachable:
			why = append(why, fmt.Sprintf("nothing moves: %s is unreachable; see roost cluster status", cmp.Or(r.name, r.node.Addr)))
		case r.registered && r.joining:
			why = append(why, fmt.Sprintf("no shard of the types of %s moves: it is not up yet; see roost cluster status", cmp.Or(r.name, r.node.Addr)))
		}
	}
	if v := m.budget.Brake(&m.cfg.Config); v.Why() != "" {
		why = append(why, v.Why()+"; see roost placement status")
	}
	if room, by := m.budget.Room(m.now, &m.cfg.Config); room == 0 && by != budget.ByBrake {
		why = append(why, "no more moves can begin now: a limit is reached; see allocation.max_handoffs and allocation.max_moves_per_minute")
	}
	return why
}
