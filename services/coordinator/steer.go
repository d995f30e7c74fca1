package coordinator

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

// Operators steer placement by requests. Each request is stored as a fact, with its sender and its
// reason, so it remains in effect under later coordinators. A cordon and a pin name a region, so they
// also remain in effect when the region's process is replaced. A drain is about one process.

// endFreeze ends a freeze whose time is over.
func (m *Machine) endFreeze() {
	// Invariant: while an operator has frozen moves, a shard moves only if it must.
	// Mutants: freeze, freeze-moves
	//mutant:false freeze
	if m.intent.Freeze().Frozen && !m.intent.Frozen(m.now) && !m.ledger.pending(m.ledger.wishFact) {
		m.commit(FreezeFact{Note: m.note("", "its time is over")})
	}
}

// SteeringView has the requests of operators that are in effect. It shares nothing that is written to
// later.
type SteeringView struct {
	Drains  []DrainView  // sorted by region
	Cordons []CordonView // sorted by region
	Freeze  FreezeFact   // in effect if it is Frozen
	Pins    []PinView    // sorted by shard
	Moves   []MoveFact   // moves that are in progress, sorted by shard
	Brake   BrakeView
}

// DrainView is a drain, and its present effect.
type DrainView struct {
	DrainFact
	Name   string // the name of the region; "": it is not here
	Shards int    // the number of the region's shards, and of those that are on their way to it
}

// CordonView is a cordon, and its present effect.
type CordonView struct {
	CordonFact
	// Here is true if a region with this name is a member.
	Here bool
	// Shards is the number of the region's shards. Since is the number of shards that the region got after it was
	// cordoned, because no other region could take them, or because they are pinned to it.
	Shards, Since int
}

// PinView is a pin, and who owns the shard.
type PinView struct {
	PinFact
	Owner sharding.NodeID
	Name  string // the name of the owner
}

// Steering returns the requests of operators that are in effect.
func (m *Machine) Steering() SteeringView {
	v := SteeringView{Freeze: m.intent.Freeze(), Brake: m.budget.Brake(&m.cfg.Config), Moves: slices.Collect(intent.All[MoveFact](&m.intent, intent.Moves))}
	for f := range intent.All[DrainFact](&m.intent, intent.Drains) {
		dv := DrainView{DrainFact: f}
		if r := m.live.region(f.Region); r != nil {
			dv.Name = r.name
		}
		dv.Shards = m.table.involving(f.Region)
		v.Drains = append(v.Drains, dv)
	}
	for c := range intent.All[CordonFact](&m.intent, intent.Cordons) {
		v.Cordons = append(v.Cordons, m.cordonView(c))
	}
	for p := range intent.All[PinFact](&m.intent, intent.Pins) {
		pv := PinView{PinFact: p, Owner: m.table.OwnerOf(p.Shard)}
		if r := m.live.region(pv.Owner); r != nil {
			pv.Name = r.name
		}
		v.Pins = append(v.Pins, pv)
	}
	return v
}

func (pl *placement) cordonView(c CordonFact) CordonView {
	v := CordonView{CordonFact: c}
	for i := range pl.live.regions {
		r := &pl.live.regions[i]
		if r.name != c.Region {
			continue
		}
		v.Here = true
		for _, t := range pl.table.types {
			for _, s := range t.shardsOf(r.node) {
				v.Shards++
				v.Since += toInt(t.rows[s.Index].Epoch > c.After)
			}
		}
	}
	return v
}
