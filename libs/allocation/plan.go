package allocation

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TypePlan is the input of a plan for one entity type.
type TypePlan struct {
	View View
	// InFlight are the shards of the type that are on the move. They are left alone.
	InFlight []sharding.ShardID
	Strategy Strategy
	// Target names the regions that get the shards of leaving regions first. Only [Propose] looks at it.
	Target Target
}

// PlanInput is the input of a plan.
type PlanInput struct {
	// Types are planned in this order. A region that hosts several of them is in the view
	// of each, with the same Total, Load and Capacity.
	Types []TypePlan
	// Budget is the largest number of moves.
	Budget int
	// Abandoned reports whether no caller waits for the plan any more. It is called again and again while a
	// plan is made, which then ends at once, and is not complete. nil: the plan is made to its end.
	Abandoned func() bool
}

// Reason is the purpose of a move.
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
	p := planner{budget: in.Budget, abandoned: in.Abandoned, changes: map[sharding.NodeID]change{}}
	p.balanceAll(in.Types)
	return p.moves
}

// Propose returns the result of [Plan] if all regions that leave had been emptied before: the moves off
// these regions, the moves of the plan, and the shards that no other region can be given. The coordinator
// hands such shards off one by one, without a plan. Propose chooses regions for them as the coordinator
// does, in the same order. So it predicts the moves if nothing else happens. Shards of regions that leave
// go elsewhere even if the view is not settled, or if they are on the move, and do not count for the
// budget.
func Propose(in PlanInput) (moves []Move, unplaced []sharding.ShardID) {
	p := planner{budget: in.Budget, abandoned: in.Abandoned, changes: map[sharding.NodeID]change{}}
	emptied := slices.Clone(in.Types)
	for i := range emptied {
		v := &emptied[i].View
		p.begin(in.Types[i])
		unplaced = append(unplaced, p.evacuate()...)
		v.Regions = slices.Clone(v.Regions)
		for r := range v.Regions {
			v.Regions[r].Shards = p.Regions[r].Shards
		}
	}
	p.balanceAll(emptied)
	return p.moves, unplaced
}

// change is the effect of the moves so far on a region.
type change struct {
	total     int
	took, had Load
}

// planner makes a plan.
type planner struct {
	budget    int
	abandoned func() bool
	moves     []Move
	changes   map[sharding.NodeID]change

	// For the type that is planned now.
	*board
	strategy Strategy
	target   Target
	inFlight []sharding.ShardID
	settled  map[sharding.ShardID]bool // moved by this plan, or in flight
	indexes  []int
	regions  []Region
}

func (p *planner) begin(t TypePlan) {
	p.board, p.strategy, p.target, p.inFlight, p.settled = newBoard(t.View), t.Strategy, t.Target, t.InFlight, setOf(t.InFlight)
	for _, m := range p.moves {
		if m.Shard.Type == t.View.Type {
			p.settled[m.Shard] = true
		}
	}
	//mutant:do plan-totals return
	for i := range p.Regions {
		r := &p.Regions[i]
		c := p.changes[r.Node]
		r.Total += c.total
		r.Load = r.Load.Plus(c.took).Minus(c.had)
	}
	p.weigh(0)
}

// move moves the shard at a place of a region's list to the region that the strategy chooses among
// its candidates, and reports whether it did. It does not if the owner is the choice, or if the choice
// does not keep the constraint.
func (p *planner) move(owner, place int, reason Reason, constraint Broken) bool {
	was := p.Regions[owner]
	s := was.Shards[place]
	if p.settled[s] || len(p.moves) >= p.budget || p.ends() {
		return false
	}
	p.lift(owner, s)
	var broken Broken
	p.indexes, broken = p.candidates(s, p.indexes)
	if broken&constraint == 0 { //mutant:true repair-gains
		p.drop(owner, was, place)
		v := p.narrowed(p.indexes, p.regions)
		p.regions = v.Regions
		node := p.strategy.Allocate(v, s)
		to := p.indexOf(node)
		if to >= 0 && to != owner && slices.Contains(p.indexes, to) {
			p.give(to, s)
			p.note(Move{Shard: s, From: was.Node, To: node, Reason: reason, Broken: broken})
			return true
		}
	}
	p.restore(owner, was)
	return false
}

// ends reports whether no caller waits for the plan any more.
func (p *planner) ends() bool { return p.abandoned != nil && p.abandoned() }

// note adds a move to the plan.
func (p *planner) note(m Move) {
	p.settled[m.Shard] = true
	p.moves = append(p.moves, m)
	load := p.loadOf(m.Shard).Load
	c := p.changes[m.From]
	p.changes[m.From] = change{c.total - 1, c.took, c.had.Plus(load)}
	c = p.changes[m.To]
	p.changes[m.To] = change{c.total + 1, c.took.Plus(load), c.had}
}

// evacuate moves all shards off the regions that leave, in the order of their indexes, and returns
// those that no other region can be given. These moves must be made, so the budget does not limit
// them.
func (p *planner) evacuate() (unplaced []sharding.ShardID) {
	type leaving struct {
		shard sharding.ShardID
		owner int
	}
	var list []leaving
	owned, hosts := 0, 0
	for i := range p.Regions {
		r := &p.Regions[i]
		if owned += len(r.Shards); r.up() {
			hosts++
		}
		if r.Status.Going() {
			for _, s := range r.Shards {
				list = append(list, leaving{s, i})
			}
		}
	}
	slices.SortFunc(list, func(a, b leaving) int { return a.shard.Compare(b.shard) })
	room := p.target.Room(owned, hosts)
	for _, l := range list {
		if p.ends() {
			break
		}
		to, broken := p.refuge(l.shard, room)
		if to < 0 {
			unplaced = append(unplaced, l.shard)
			continue
		}
		r := &p.Regions[l.owner]
		r.Total--
		r.Load = r.Load.Minus(p.loadOf(l.shard).Load)
		p.tally(l.owner, -1)
		p.give(to, l.shard)
		p.budget++
		p.note(Move{Shard: l.shard, From: r.Node, To: p.Regions[to].Node, Reason: ReasonLeave, Broken: broken})
	}
	stays := setOf(unplaced)
	for i := range p.Regions {
		if r := &p.Regions[i]; r.Status.Going() {
			r.Shards = slices.DeleteFunc(slices.Clone(r.Shards), func(s sharding.ShardID) bool { return !stays[s] })
		}
	}
	return unplaced
}

// refuge returns the region that the coordinator would choose for a shard whose region leaves; -1:
// there is none. The coordinator shows the strategy only regions that can be given the shard.
func (p *planner) refuge(s sharding.ShardID, room int) (to int, broken Broken) {
	v := View{Type: p.Type, Pins: p.Pins, ShardLoads: p.ShardLoads, Regions: p.regions[:0]}
	for i := range p.Regions {
		if r := &p.Regions[i]; r.up() && r.Reads.Contains(p.formsOf(s)) {
			v.Regions = append(v.Regions, *r)
		}
	}
	p.regions = v.Regions
	if p.target.Version != "" {
		v = p.target.Preferred(v, s, room)
	}
	v, broken = Candidates(v, s)
	node := p.strategy.Allocate(v, s)
	if !slices.ContainsFunc(v.Regions, func(r Region) bool { return r.Node == node }) {
		return -1, 0
	}
	return p.indexOf(node), broken
}

// balanceAll makes the optional moves of all types.
func (p *planner) balanceAll(types []TypePlan) {
	boards := make([]*board, len(types))
	for i, t := range types {
		if t.View.Settled() {
			p.begin(t)
			p.pinned()
			p.overCapacity(false)
			p.overShare()
			p.strategic()
			boards[i] = p.board
		}
	}
	for i, t := range types {
		if boards[i] != nil && len(t.View.Pins) > 0 {
			p.begin(t)
			for r := range p.Regions { // begin has counted what has moved, of all types
				boards[i].Regions[r].Total, boards[i].Regions[r].Load = p.Regions[r].Total, p.Regions[r].Load
			}
			p.board = boards[i]
			p.overCapacity(true)
		}
	}
}

// pinned moves shards to the regions that they are pinned to.
func (p *planner) pinned() {
	if len(p.Pins) == 0 {
		return
	}
	for i := range p.Regions {
		for place := 0; place < len(p.Regions[i].Shards); {
			pin := p.Pins[p.Regions[i].Shards[place]]
			if pin == "" || pin == p.Regions[i].Name || !p.move(i, place, ReasonPin, BrokenPin) {
				place++
			}
		}
	}
}

// overCapacity moves shards off regions that have more than their capacity: those that are pinned to their
// region, or all others. The others go first, of all types. Otherwise they would take the places of the
// pinned ones permanently.
func (p *planner) overCapacity(pinned bool) {
	for i := range p.Regions {
		for place := 0; place < len(p.Regions[i].Shards); {
			r := &p.Regions[i]
			if r.Capacity == 0 || r.Total <= r.Capacity {
				break
			}
			pin := p.Pins[r.Shards[place]]
			if here := pin != "" && pin == r.Name; here != pinned || !p.move(i, place, ReasonCapacity, BrokenCapacity) {
				place++
			}
		}
	}
}

// overShare moves shards out of zones that have more than their share, from the region that
// has most there.
func (p *planner) overShare() {
	if len(p.zones) < 2 {
		return
	}
	untried, stay := make([]int, len(p.Regions)), make([]int, len(p.Regions)) // the latter come first
	for i := range p.Regions {
		untried[i] = len(p.Regions[i].Shards)
	}
	for z := range p.zones {
		for p.zones[z].shards > p.allowed(z, p.shards) {
			most := -1
			for i := range p.Regions {
				if p.zone(i) == z && p.Regions[i].up() && untried[i] > 0 && (most < 0 || len(p.Regions[i].Shards) > len(p.Regions[most].Shards)) {
					most = i
				}
			}
			if most < 0 {
				break
			}
			untried[most]--
			if !p.move(most, stay[most], ReasonZone, BrokenZone) {
				stay[most]++
			}
		}
	}
}

// strategic makes the moves that the strategy names.
func (p *planner) strategic() {
	reason := ReasonBalance
	if GoesByLoad(p.strategy) {
		reason = ReasonLoad
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
		if len(p.moves) >= p.budget || p.ends() {
			return // a strategy may name all shards, and to look for one takes time
		}
		if i, found := owner[s]; found && !p.settled[s] {
			p.move(i, slices.Index(p.Regions[i].Shards, s), reason, 0)
		}
	}
}

// Prefers reports whether the strategy, asked again, still wants a shard at the new region of a move
// rather than at its owner. The view is that before the move; the owner has the shard. It is enough
// that the strategy chooses the new region of these two: then the move makes things better, even if by
// now a third region were better still.
func Prefers(strategy Strategy, v View, m Move) bool {
	b := newBoard(v)
	owner, to := b.indexOf(m.From), b.indexOf(m.To)
	if owner < 0 || to < 0 {
		return false
	}
	was := b.Regions[owner]
	place := slices.Index(was.Shards, m.Shard)
	if place < 0 {
		return false
	}
	b.lift(owner, m.Shard)
	b.drop(owner, was, place)
	both := []int{min(owner, to), max(owner, to)}
	if strategy.Allocate(b.narrowed(both, nil), m.Shard) == m.To {
		return true
	}
	// The owner may be no candidate, or the strategy goes by all regions.
	candidates, _ := b.candidates(m.Shard, nil)
	return strategy.Allocate(b.narrowed(candidates, nil), m.Shard) == m.To
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
