package coordinator

import (
	"cmp"
	"fmt"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
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

// Proposal is what the answer to a [PlanQuery] is computed from.
type Proposal struct {
	Input allocation.PlanInput
	// HeldBack has sentences that say why fewer moves, or none, can begin now.
	HeldBack []string
}

// Propose returns the input of a plan made now, for [allocation.Propose]. It changes nothing. If no
// voluntary move may begin now, the budget of the input is that of a cluster without handoffs. So the
// answer shows the moves that are held back.
func (m *Machine) Propose(q PlanQuery) (Proposal, error) {
	types := m.types
	if q.Type != "" {
		t, err := m.findType(q.Type)
		if err != nil {
			return Proposal{}, err
		}
		types = []*typeTable{t}
	}
	leaving := map[sharding.NodeID]bool{}
	for _, name := range q.Without {
		r, err := m.findRegion(name)
		if err != nil {
			return Proposal{}, err
		}
		if err := m.mayPlanWithout(r); err != nil {
			return Proposal{}, err
		}
		leaving[r.node] = true
	}
	room, _ := m.budget.room(m.now, &m.cfg)
	p := Proposal{Input: allocation.PlanInput{Budget: cmp.Or(room, m.cfg.MaxHandoffs)}, HeldBack: m.heldBack()}
	for _, t := range types {
		plan := m.typePlan(t)
		if q.Strategy != nil {
			plan.Strategy = q.Strategy
		}
		for i := range plan.View.Regions {
			if r := &plan.View.Regions[i]; leaving[r.Node] {
				r.Status = allocation.Leaving
			}
		}
		if _, byLoad := plan.Strategy.(allocation.LeastLoad); byLoad && !m.measured() {
			p.HeldBack = append(p.HeldBack, fmt.Sprintf("no shard of %s moves because of its load: not every region has reported its load twice, with a recent last report", t.desc.Type))
		}
		p.Input.Types = append(p.Input.Types, plan)
	}
	return p, nil
}

// findRegion returns the one region with a name or address that a request has given.
func (m *Machine) findRegion(name string) (*region, error) {
	list := m.called(name)
	switch len(list) {
	case 0:
		return nil, refuse(NotFound, "no region %s; see roost members", name)
	case 1:
		return list[0], nil
	}
	return nil, refuse(Malformed, "%d regions are called %s; name one by its address and uid, as roost members shows them, such as %s", len(list), name, list[0].node)
}

// mayPlanWithout returns an error if no plan can assume now that a region leaves. That is so if the
// region is in no view of a type.
func (m *Machine) mayPlanWithout(r *region) error {
	name := cmp.Or(r.name, r.node.Addr)
	switch {
	case !r.registered:
		return refuse(NotNow, "%s has not registered yet; try again when roost members shows its shards", name)
	case r.cutOff() || r.recovering():
		return refuse(NotNow, "%s does not reach the journal, or has reached it again only recently, and is in no plan; look at its log", name)
	}
	return nil
}

// heldBack says why fewer moves, or none, can begin now.
func (m *Machine) heldBack() (why []string) {
	if !m.recovered {
		why = append(why, fmt.Sprintf("nothing moves yet: the coordinator has just become active and waits for the regions for up to %v", m.cfg.RecoveryWait))
	}
	if m.halted() {
		f := m.steering.freeze
		why = append(why, fmt.Sprintf("nothing moves: %s froze all moves of shards that can stay%s; see roost thaw", who(f.By), because(f.Reason)))
	}
	if m.frozen() {
		why = append(why, fmt.Sprintf("nothing moves: a rollout to version %s is on; see roost rollout", m.target.Version))
	}
	for i := range m.regions {
		switch r := &m.regions[i]; {
		case !r.reachable:
			why = append(why, fmt.Sprintf("nothing moves: %s is unreachable; see roost members", cmp.Or(r.name, r.node.Addr)))
		case r.registered && r.joining:
			why = append(why, fmt.Sprintf("no shard of the types of %s moves: it is not up yet; see roost members", cmp.Or(r.name, r.node.Addr)))
		}
	}
	if v := m.budget.brake.view(&m.cfg); v.Why() != "" {
		why = append(why, v.Why()+"; see roost steering")
	}
	if room, by := m.budget.room(m.now, &m.cfg); room == 0 && by != limitBrake {
		why = append(why, "no more moves can begin now: a limit is reached; see allocation.max_handoffs and allocation.max_moves_per_minute")
	}
	return why
}
