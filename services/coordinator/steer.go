package coordinator

import (
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

// Operators steer placement by requests. Each request is stored as a fact, with its sender and its
// reason, so it remains in effect under later coordinators. A cordon and a pin name a region, so they
// also remain in effect when the region's process is replaced. A drain is about one process.

// steering has the requests of operators that are in effect, except drains and pins. Pins are stored
// with their types.
type steering struct {
	cordons []CordonFact // sorted by region
	freeze  FreezeFact   // if Frozen is false, there is no freeze
	moves   []MoveFact   // moves that are in progress, sorted by shard
	// lastFact is the number of the newest of these facts in this term. Pins and drains count too.
	lastFact uint64
}

func (m *Machine) searchDrain(region sharding.NodeID) (int, bool) {
	return slices.BinarySearchFunc(m.drained, region, func(f DrainFact, n sharding.NodeID) int { return f.Region.Compare(n) })
}

func (s *steering) searchCordon(region string) (int, bool) {
	return slices.BinarySearchFunc(s.cordons, region, func(c CordonFact, name string) int { return strings.Compare(c.Region, name) })
}

func (s *steering) searchMove(shard sharding.ShardID) (int, bool) {
	return slices.BinarySearchFunc(s.moves, shard, func(f MoveFact, s sharding.ShardID) int { return f.Shard.Compare(s) })
}

// sortedPins lists the pins of a type, sorted by shard.
func (t *typeTable) sortedPins() []PinFact {
	list := make([]PinFact, 0, len(t.pins))
	for i := 0; i < len(t.rows) && len(list) < len(t.pins); i++ {
		if f, found := t.pins[uint32(i)]; found {
			list = append(list, f)
		}
	}
	return list
}

func (m *Machine) applyCordon(f CordonFact) {
	if f.Region == "" || mutant.On("cordon-kept") && !m.recovered {
		return
	}
	i, found := m.steering.searchCordon(f.Region)
	switch {
	case f.Lifted && found:
		m.steering.cordons = slices.Delete(m.steering.cordons, i, i+1)
	case f.Lifted:
	case found:
		m.steering.cordons[i] = f
	default:
		m.steering.cordons = slices.Insert(m.steering.cordons, i, f)
	}
}

func (m *Machine) applyFreeze(f FreezeFact) {
	if mutant.On("freeze-kept") && !m.recovered {
		return
	}
	if !f.Frozen {
		f = FreezeFact{}
	}
	m.steering.freeze = f
}

func (m *Machine) applyPin(f PinFact) {
	t, r := m.find(f.Shard)
	if r == nil || mutant.On("pin-kept") && !m.recovered {
		return
	}
	if f.Region == "" {
		delete(t.pins, f.Shard.Index)
	} else {
		if t.pins == nil {
			t.pins = map[uint32]PinFact{}
		}
		t.pins[f.Shard.Index] = f
	}
	t.pinned = nil
}

// applyMove keeps the wish as long as the shard is handed off: then the move was carried out,
// or something else has happened to the shard. The fact of the row comes first.
func (m *Machine) applyMove(f MoveFact) {
	_, r := m.find(f.Shard)
	if r == nil || f.Epoch != r.Epoch || r.Phase != sharding.HandingOff || r.successor.IsZero() {
		return
	}
	if i, found := m.steering.searchMove(f.Shard); found {
		m.steering.moves[i] = f
	} else {
		m.steering.moves = slices.Insert(m.steering.moves, i, f)
	}
}

// endMove forgets the move of a shard when the shard has a later epoch.
func (m *Machine) endMove(r sharding.Row) {
	if i, found := m.steering.searchMove(r.Shard); found && m.steering.moves[i].Epoch < r.Epoch {
		m.steering.moves = slices.Delete(m.steering.moves, i, i+1)
	}
}

// cordoned reports whether an operator has cordoned the regions with this name.
func (m *Machine) cordoned(name string) bool {
	_, found := m.steering.searchCordon(name)
	return found && !mutant.On("cordon")
}

// pinsOf returns the pins of a type, for a view. They are never written to.
func (t *typeTable) pinsOf() map[sharding.ShardID]string {
	if len(t.pins) == 0 || mutant.On("pin") {
		return nil
	}
	if t.pinned == nil {
		t.pinned = make(map[sharding.ShardID]string, len(t.pins))
		for _, p := range t.pins { // order-free: a map is made of them
			t.pinned[p.Shard] = p.Region
		}
	}
	return t.pinned
}

// pin returns the name of the region that a shard is pinned to; "": the shard is not pinned.
func (t *typeTable) pin(s sharding.ShardID) string { return t.pinsOf()[s] }

// frozenByOperator reports whether an operator's freeze is in effect. For the freeze of a rollout, see
// frozenByRollout.
func (m *Machine) frozenByOperator() bool {
	f := m.steering.freeze
	return f.Frozen && (f.Until.IsZero() || m.now.Before(f.Until)) && !mutant.On("freeze")
}

// endFreeze ends a freeze whose time is over.
func (m *Machine) endFreeze() {
	if m.steering.freeze.Frozen && !m.frozenByOperator() && !m.pending(m.steering.lastFact) && !mutant.On("freeze") {
		m.commit(FreezeFact{Note: m.note("", "its time is over")})
	}
}

// note is about now. Facts have times in milliseconds.
func (s *step) note(by, reason string) Note {
	return Note{By: by, Reason: reason, At: fact.Time(s.now)}
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
	v := SteeringView{Freeze: m.steering.freeze, Brake: m.budget.brake.view(&m.cfg), Moves: slices.Clone(m.steering.moves)}
	for _, f := range m.drained {
		dv := DrainView{DrainFact: f}
		if r := m.region(f.Region); r != nil {
			dv.Name = r.name
		}
		dv.Shards = m.involving(f.Region)
		v.Drains = append(v.Drains, dv)
	}
	for _, c := range m.steering.cordons {
		v.Cordons = append(v.Cordons, m.cordonView(c))
	}
	for _, t := range m.types {
		for _, p := range t.sortedPins() {
			pv := PinView{PinFact: p, Owner: t.rows[p.Shard.Index].Owner}
			if r := m.region(pv.Owner); r != nil {
				pv.Name = r.name
			}
			v.Pins = append(v.Pins, pv)
		}
	}
	return v
}

func (m *Machine) cordonView(c CordonFact) CordonView {
	v := CordonView{CordonFact: c}
	for i := range m.regions {
		r := &m.regions[i]
		if r.name != c.Region {
			continue
		}
		v.Here = true
		for _, t := range m.types {
			for _, s := range t.shardsOf(r.node) {
				v.Shards++
				v.Since += toInt(t.rows[s.Index].Epoch > c.After)
			}
		}
	}
	return v
}
