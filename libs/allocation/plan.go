package allocation

import (
	"slices"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TypePlan is what is planned for one entity type.
type TypePlan struct {
	View View
	// InFlight are the shards of the type that are on the move. They are left alone.
	InFlight []sharding.ShardID
	Strategy Strategy
}

// PlanInput is what a plan is made from.
type PlanInput struct {
	// Types are planned in this order. A region that hosts several of them is in the view
	// of each, with the same Total, Load and Capacity.
	Types []TypePlan
	// Budget is the largest number of moves.
	Budget int
}

// Reason says what a move is good for.
type Reason uint8

// The reasons.
const (
	ReasonBalance  Reason = iota + 1 // the strategy wants the shard elsewhere
	ReasonLoad                       // the owner has too much load
	ReasonPin                        // the shard is pinned to another region
	ReasonCapacity                   // the owner has more shards than its capacity
	ReasonZone                       // the owner's zone has more than its share of the type's shards
	ReasonLeave                      // the owner leaves
)

// String returns the reason in a word.
func (r Reason) String() string {
	switch r {
	case ReasonBalance:
		return "balance"
	case ReasonLoad:
		return "load"
	case ReasonPin:
		return "pin"
	case ReasonCapacity:
		return "capacity"
	case ReasonZone:
		return "zone"
	case ReasonLeave:
		return "leave"
	}
	return "invalid"
}

// Move is one shard that should move.
type Move struct {
	Shard    sharding.ShardID
	From, To sharding.NodeID
	Reason   Reason
	// Broken are the constraints that To does not keep. From does not keep them either.
	Broken Broken
}

// Plan returns the moves that should begin now, in this order, for all types. It first
// moves shards that are not where they are pinned, that exceed the capacity of their region,
// or the share of their zone, and then those that the strategy names. Each move counts for
// the ones after it, of all types. A type whose view is not settled is left alone.
func Plan(in PlanInput) []Move {
	p := planner{budget: in.Budget, changes: map[sharding.NodeID]change{}}
	for _, t := range in.Types {
		if t.View.Settled() {
			p.begin(t)
			p.balance()
		}
	}
	return p.moves
}

// Propose returns what [Plan] would if all regions that leave had been emptied before: the moves
// off these regions, those of the plan, and the shards that no other region can be given. The
// coordinator hands such shards off one by one, without a plan. So Propose only tells what to
// expect. Shards of regions that leave go elsewhere even if the view is not settled, or if they
// are on the move, and do not count for the budget.
func Propose(in PlanInput) (moves []Move, unplaced []sharding.ShardID) {
	p := planner{budget: in.Budget, changes: map[sharding.NodeID]change{}}
	for _, t := range in.Types {
		p.begin(t)
		unplaced = append(unplaced, p.evacuate()...)
		if t.View.Settled() {
			p.balance()
		}
	}
	return p.moves, unplaced
}

// change is what the moves so far change about a region.
type change struct {
	total     int
	took, had Load
}

// planner makes a plan.
type planner struct {
	budget  int
	moves   []Move
	changes map[sharding.NodeID]change

	// For the type that is planned now.
	*board
	strategy Strategy
	inFlight []sharding.ShardID
	settled  map[sharding.ShardID]bool // moved by this plan, or in flight
	indexes  []int
	regions  []Region
}

func (p *planner) begin(t TypePlan) {
	p.board, p.strategy, p.inFlight, p.settled = newBoard(t.View), t.Strategy, t.InFlight, setOf(t.InFlight)
	if mutant.On("plan-totals") {
		return
	}
	for i := range p.Regions {
		r := &p.Regions[i]
		c := p.changes[r.Node]
		r.Total += c.total
		r.Load = r.Load.Plus(c.took).Minus(c.had)
	}
}

// move moves a shard of a region to the one that the strategy chooses among its candidates,
// and reports whether it did. It does not if the owner is the choice, or if the choice does
// not keep the constraint.
func (p *planner) move(owner int, s sharding.ShardID, reason Reason, constraint Broken) bool {
	place := slices.Index(p.Regions[owner].Shards, s)
	if place < 0 || p.settled[s] || len(p.moves) >= p.budget {
		return false
	}
	was := p.Regions[owner]
	p.remove(owner, place)
	var broken Broken
	p.indexes, broken = p.candidates(s, sharding.NodeID{}, p.indexes)
	if broken&constraint == 0 || mutant.On("repair-worse") {
		v := p.narrowed(p.indexes, p.regions)
		p.regions = v.Regions
		node := p.strategy.Allocate(v, s)
		to := p.indexOf(node)
		if to >= 0 && to != owner && slices.Contains(p.indexes, to) {
			p.give(to, s)
			p.settled[s] = true
			p.moves = append(p.moves, Move{Shard: s, From: was.Node, To: node, Reason: reason, Broken: broken})
			load := p.loadOf(s).Load
			c := p.changes[was.Node]
			p.changes[was.Node] = change{c.total - 1, c.took, c.had.Plus(load)}
			c = p.changes[node]
			p.changes[node] = change{c.total + 1, c.took.Plus(load), c.had}
			return true
		}
	}
	p.restore(owner, was)
	return false
}

// evacuate moves all shards off the regions that leave, and returns those that no other region
// can be given. These moves must be made, so the budget does not limit them.
func (p *planner) evacuate() (unplaced []sharding.ShardID) {
	for i := range p.Regions {
		if !p.Regions[i].Status.Going() {
			continue
		}
		for _, s := range p.Regions[i].Shards {
			delete(p.settled, s)
			p.budget++
			if !p.move(i, s, ReasonLeave, 0) {
				p.budget--
				unplaced = append(unplaced, s)
			}
		}
	}
	return unplaced
}

// balance makes the moves that nobody must make.
func (p *planner) balance() {
	p.pinned()
	p.overCapacity()
	p.overShare()
	p.strategic()
}

// pinned moves shards to the regions to which they are pinned.
func (p *planner) pinned() {
	if len(p.Pins) == 0 {
		return
	}
	for i := range p.Regions {
		for _, s := range p.Regions[i].Shards {
			if pin := p.Pins[s]; pin != "" && pin != p.Regions[i].Name {
				p.move(i, s, ReasonPin, BrokenPin)
			}
		}
	}
}

// overCapacity moves shards off regions that have more than their capacity.
func (p *planner) overCapacity() {
	for i := range p.Regions {
		for _, s := range p.Regions[i].Shards {
			if r := &p.Regions[i]; r.Capacity == 0 || r.Total <= r.Capacity {
				break
			}
			p.move(i, s, ReasonCapacity, BrokenCapacity)
		}
	}
}

// overShare moves shards out of zones that have more than their share, from the region that
// has most there.
func (p *planner) overShare() {
	if len(p.zones) < 2 {
		return
	}
	untried := make([][]sharding.ShardID, len(p.Regions))
	for i := range p.Regions {
		untried[i] = p.Regions[i].Shards
	}
	for z := range p.zones {
		for p.zones[z].shards > p.allowed(z, p.shards) {
			most := -1
			for i := range p.Regions {
				if p.zone(i) == z && p.Regions[i].up() && len(untried[i]) > 0 && (most < 0 || len(p.Regions[i].Shards) > len(p.Regions[most].Shards)) {
					most = i
				}
			}
			if most < 0 {
				break
			}
			s := untried[most][0]
			untried[most] = untried[most][1:]
			p.move(most, s, ReasonZone, BrokenZone)
		}
	}
}

// strategic makes the moves that the strategy names.
func (p *planner) strategic() {
	reason := ReasonBalance
	switch p.strategy.(type) {
	case LeastLoad:
		reason = ReasonLoad
	case External:
		reason = ReasonPin
	}
	named := p.strategy.Rebalance(p.snapshot(), p.inFlight)
	if len(named) == 0 {
		return
	}
	owner := map[sharding.ShardID]int{}
	for i := range p.Regions {
		for _, s := range p.Regions[i].Shards {
			owner[s] = i
		}
	}
	for _, s := range named {
		if i, found := owner[s]; found {
			p.move(i, s, reason, 0)
		}
	}
}

// snapshot returns the view as it is now. Moves do not change it.
func (p *planner) snapshot() View {
	v := p.View
	v.Regions = slices.Clone(p.Regions)
	for i := range v.Regions {
		v.Regions[i].Shards = slices.Clip(v.Regions[i].Shards)
	}
	return v
}
