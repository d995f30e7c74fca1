package coordinator

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
)

// propose computes a proposal, and checks that this changes nothing.
func (w *planWorld) propose(q PlanQuery) (p Proposal, moves []string, unplaced []sharding.ShardID) {
	w.t.Helper()
	before := string(w.m.AppendState(w.now, nil))
	p, err := w.m.Propose(q)
	if err != nil {
		w.t.Fatal(err)
	}
	planned, unplaced := allocation.Propose(p.Input)
	if string(w.m.AppendState(w.now, nil)) != before {
		w.t.Fatalf("the question %+v changes something", q)
	}
	for _, m := range planned {
		moves = append(moves, m.Shard.String()+" "+nodeText(m.From)+" "+nodeText(m.To)+" "+m.Reason.String())
	}
	return p, moves, unplaced
}

// TestPropose: a proposal has the moves of the next plan, and the destinations of a region's shards.
func TestPropose(t *testing.T) {
	w := newPlanWorld(t)
	a, b := nodeText(node(t, "r1")), nodeText(node(t, "r2"))
	_, moves, _ := w.propose(PlanQuery{})
	if want := []string{"T/0 " + a + " " + b + " balance"}; !slices.Equal(moves, want) {
		t.Errorf("proposed are %v, want %v", moves, want)
	}
	_, moves, unplaced := w.propose(PlanQuery{Type: "T", Without: []string{"r1"}})
	want := []string{"T/0 " + a + " " + b + " leave", "T/1 " + a + " " + b + " leave", "T/2 " + a + " " + b + " leave", "T/3 " + a + " " + b + " leave"}
	if !slices.Equal(moves, want) || len(unplaced) > 0 {
		t.Errorf("without r1, proposed are %v, want %v; unplaced %v", moves, want, unplaced)
	}
	if _, moves, unplaced = w.propose(PlanQuery{Without: []string{"r1", "r2"}}); len(moves) > 0 || len(unplaced) != 4 {
		t.Errorf("without both, %v, unplaced %v", moves, unplaced)
	}
	if _, moves, _ = w.propose(PlanQuery{Strategy: allocation.External{}}); len(moves) > 0 {
		t.Errorf("with another strategy, %v", moves)
	}
}

// TestProposeHeldBack: the reason that holds moves back is reported, and so are the held moves.
func TestProposeHeldBack(t *testing.T) {
	w := newPlanWorld(t)
	if p, _, _ := w.propose(PlanQuery{}); len(p.HeldBack) > 0 {
		t.Errorf("held back by %q", p.HeldBack)
	}
	before := w.m.budget
	for range w.cfg.MaxHandoffs {
		w.m.budget.Count(budget.Transit{}, budget.Transit{Row: sharding.Row{Phase: sharding.HandingOff}})
	}
	p, moves, _ := w.propose(PlanQuery{})
	w.m.budget = before
	if len(p.HeldBack) != 1 || !strings.Contains(p.HeldBack[0], "allocation.max_handoffs") || len(moves) != 1 {
		t.Errorf("with a full budget: %q, %v", p.HeldBack, moves)
	}
	w.run(FreezeMoves{By: "ann", Reason: "party"})
	p, _, _ = w.propose(PlanQuery{Strategy: allocation.LeastLoad{}})
	if len(p.HeldBack) != 2 || !strings.Contains(p.HeldBack[0], "ann froze all moves of shards that can stay (party)") || !strings.Contains(p.HeldBack[1], "no shard of T moves because of its load") {
		t.Errorf("frozen: %q", p.HeldBack)
	}
	if _, moves, _ = w.propose(PlanQuery{}); len(moves) != 1 {
		t.Errorf("frozen, proposed are %v", moves)
	}
	w.run(Member{Node: node(t, "r2"), Name: "r2"})
	if p, _, _ = w.propose(PlanQuery{}); len(p.HeldBack) != 2 || !strings.Contains(p.HeldBack[1], "r2 is unreachable") {
		t.Errorf("with an unreachable region: %q", p.HeldBack)
	}
}

// TestProposeRefuses: what a question names must be here.
func TestProposeRefuses(t *testing.T) {
	w := newPlanWorld(t)
	w.run(Member{Node: node(t, "r3"), Name: "r3", Reachable: true})
	for want, q := range map[string]PlanQuery{
		"no entity type X; declared are T":                                                    {Type: "X"},
		"no region r9; see roost cluster status":                                              {Without: []string{"r1", "r9"}},
		"region is empty; give the name or the address of a region, see roost cluster status": {Without: []string{""}},
		"r3 has not registered yet":                                                           {Without: []string{"r3"}},
	} { // order-free
		var r *Refusal
		if _, err := w.m.Propose(q); !errors.As(err, &r) || !strings.Contains(r.Text, want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
}
