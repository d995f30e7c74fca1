package coordinator

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A planning moment is the input that a plan would have had at an earlier time of the term. Operators ask what would
// have moved then. Nothing is decided by moments, and a new term has none.
//
// The data of shards is kept in pieces of momentShards shards, as text. A piece that has not changed since the moment
// before is shared with it. So a moment takes a few kilobytes in a cluster where little moves, however many shards
// there are.

// momentShards is the number of shards in a piece.
const momentShards = 128

// moment is the input of a plan at a planning moment. It is never written to.
type moment struct {
	at       time.Time // in whole seconds, as operators see it and name it
	budget   int
	heldBack []string
	measured bool
	types    []typeMoment
}

// typeMoment is the part of a moment about one type.
type typeMoment struct {
	plan   allocation.TypePlan // without what the pieces have, and without the strategy
	shards int                 // that have an owner, or are to get one
	known  bool                // loads of shards were known
	forms  bool                // forms of shards matter
	nodes  []sharding.NodeID   // pieces name nodes by their place in it
	// places has of each shard its region, its epoch and its forms, and whether it moves. loads has what
	// was known of its load. The epoch decides about the order of a region's shards.
	places, loads []string
}

// moments are the last planning moments, oldest first.
type moments struct {
	list  []*moment
	bytes int
	asked time.Time // when one was last due
}

// MomentView is a planning moment as operators see it.
type MomentView struct {
	At              time.Time
	Regions, Shards int
	// HeldBack has the reasons why fewer moves for balance, or none, could begin then.
	HeldBack []string
}

// recordMoment records the present as a planning moment, if one is due and something has changed.
func (m *Machine) recordMoment() {
	l := &m.moments
	if !m.recovered || !l.asked.IsZero() && m.now.Sub(l.asked) < m.cfg.MomentInterval {
		return
	}
	l.asked = m.now
	var last *moment
	if n := len(l.list); n > 0 {
		last = l.list[n-1]
	}
	p := m.proposal()
	now := &moment{at: m.now.Truncate(time.Second), budget: p.Input.Budget, heldBack: p.HeldBack, measured: m.measured()}
	for i, t := range m.types {
		tm := typeMoment{plan: allocation.TypePlan{View: m.typeView(t), Target: m.rolloutTarget()}, known: m.shardLoads(t) != nil, forms: len(t.forms) > 0}
		tm.plan.View.Unsettled = m.frozenByRollout()
		for r := range tm.plan.View.Regions {
			tm.shards += len(tm.plan.View.Regions[r].Shards)
			tm.plan.View.Regions[r].Shards = nil
		}
		tm.plan.View.ShardLoads = nil
		var before typeMoment
		if last != nil && i < len(last.types) {
			before = last.types[i]
		}
		var owners []uint32
		tm.nodes, owners = t.owners(before.nodes)
		for first := 0; first < len(t.rows); first += momentShards {
			places, loads := m.piece(t, first, owners[first:min(first+momentShards, len(t.rows))], &tm)
			tm.places, tm.loads = shared(tm.places, before.places, places), shared(tm.loads, before.loads, loads)
		}
		now.types = append(now.types, tm)
	}
	if last != nil && now.equal(last) {
		return
	}
	l.list = append(l.list, now)
	l.bytes += now.size(last)
	for len(l.list) > 1 && (len(l.list) > m.cfg.MaxMoments || l.bytes > m.cfg.MomentBytes) {
		l.bytes -= l.list[0].size(nil) + l.list[1].size(l.list[0]) - l.list[1].size(nil)
		l.list = slices.Clone(l.list[1:])
	}
}

// shared appends a piece to a list. If the list before has the same piece there, that one is appended.
func shared(list, before []string, piece string) []string {
	if i := len(list); i < len(before) && before[i] == piece {
		piece = before[i]
	}
	return append(list, piece)
}

// equal reports whether two moments differ in their times only.
func (m *moment) equal(o *moment) bool {
	return m.budget == o.budget && m.measured == o.measured && slices.Equal(m.heldBack, o.heldBack) &&
		slices.EqualFunc(m.types, o.types, func(a, b typeMoment) bool { return a.equal(&b) })
}

func (t *typeMoment) equal(o *typeMoment) bool {
	a, b := t.plan.View, o.plan.View
	if !maps.Equal(a.Pins, b.Pins) || t.known != o.known || !slices.Equal(t.nodes, o.nodes) || !slices.Equal(t.places, o.places) || !slices.Equal(t.loads, o.loads) {
		return false
	}
	a.Pins, b.Pins = nil, nil
	return t.plan.Target == o.plan.Target && fmt.Sprint(a) == fmt.Sprint(b) // the rest is short
}

// size is about what a moment takes in memory if it shares with the one before; nil: there is none.
func (m *moment) size(before *moment) int {
	const header, perRegion, perNode, perPin = 16, 300, 24, 100
	n := 200
	for _, s := range m.heldBack {
		n += header + len(s)
	}
	for i := range m.types {
		t, o := &m.types[i], &typeMoment{}
		if before != nil && i < len(before.types) {
			o = &before.types[i]
		}
		n += 300 + perRegion*len(t.plan.View.Regions) + perNode*max(0, len(t.nodes)-len(o.nodes))
		if len(t.plan.View.Pins) != len(o.plan.View.Pins) || !maps.Equal(t.plan.View.Pins, o.plan.View.Pins) {
			n += perPin * len(t.plan.View.Pins)
		}
		for _, list := range [...][2][]string{{t.places, o.places}, {t.loads, o.loads}} {
			for i, piece := range list[0] {
				if n += header; i >= len(list[1]) || list[1][i] != piece {
					n += len(piece)
				}
			}
		}
	}
	return n
}

// Flags of a shard in a piece.
const (
	pieceMoves = 1 << iota
	pieceCools
)

// owners returns, by the index of the shard, the place in a list of the node that has the shard when what
// is in progress has ended, from 1; 0: no node has. The list begins with the nodes of the moment before, so
// that pieces stay the same, unless most of these are gone.
func (t *typeTable) owners(before []sharding.NodeID) (nodes []sharding.NodeID, owners []uint32) {
	if len(before) > 2*len(t.expected)+64 {
		before = nil
	}
	nodes, owners = slices.Clip(before), make([]uint32, len(t.rows))
	places := make(map[sharding.NodeID]uint32, len(nodes))
	for i, n := range nodes {
		places[n] = uint32(i) + 1
	}
	for i := range t.expected {
		h := &t.expected[i]
		if places[h.node] == 0 {
			nodes = append(nodes, h.node)
			places[h.node] = uint32(len(nodes))
		}
		for _, s := range h.shards {
			owners[s.Index] = places[h.node]
		}
	}
	return nodes, owners
}

// piece returns the places and the loads of the shards of a type from index first on, one for each of the owners.
func (m *Machine) piece(t *typeTable, first int, owners []uint32, tm *typeMoment) (places, loads string) {
	b, l := make([]byte, 0, 12*momentShards), []byte(nil)
	for i, owner := range owners {
		r := &t.rows[first+i]
		if b = binary.AppendUvarint(b, uint64(owner)); owner == 0 {
			b = t.appendForms(b, r, tm)
			continue
		}
		b = binary.AppendUvarint(b, uint64(r.Epoch))
		flags := byte(0)
		if inTransit(r.Row) {
			flags |= pieceMoves
		}
		if tm.known && m.cools(r) {
			flags |= pieceCools
		}
		b = t.appendForms(append(b, flags), r, tm)
		if tm.known && t.loads[first+i].Load != (sharding.Load{}) {
			l = binary.AppendUvarint(l, uint64(i))
			for _, part := range loadParts(&t.loads[first+i].Load) {
				l = binary.AppendUvarint(l, *part)
			}
		}
	}
	return string(b), string(l)
}

func (t *typeTable) appendForms(b []byte, r *row, tm *typeMoment) []byte {
	if !tm.forms {
		return b
	}
	forms := r.stored()
	return append(binary.AppendUvarint(b, uint64(len(forms))), forms...)
}

func loadParts(l *sharding.Load) [6]*uint64 {
	return [...]*uint64{&l.HandlerMicros, &l.MilliCommands, &l.MilliWaiting, &l.JournalBytes, &l.Entities, &l.Bytes}
}

// pieceReader reads what piece has written.
type pieceReader string

func (r *pieceReader) uint() uint64 {
	v, n := uint64(0), 0
	for shift := 0; ; shift += 7 {
		c := (*r)[n]
		n++
		if v |= uint64(c&0x7f) << shift; c < 0x80 {
			*r = (*r)[n:]
			return v
		}
	}
}

func (r *pieceReader) text(n uint64) string {
	text := (*r)[:n]
	*r = (*r)[n:]
	return string(text)
}

// restore returns what a plan for the type is made from.
func (t *typeMoment) restore(strategy allocation.Strategy) allocation.TypePlan {
	p := t.plan
	p.Strategy = strategy
	p.View.Regions = slices.Clone(p.View.Regions)
	type placed struct {
		shard sharding.ShardID
		epoch uint64
	}
	lists := make([][]placed, len(t.nodes))
	for piece, places := range t.places {
		r := pieceReader(places)
		for i := piece * momentShards; len(r) > 0; i++ {
			s := sharding.ShardID{Type: p.View.Type, Index: uint32(i)}
			cools := false
			if at := r.uint(); at > 0 {
				lists[at-1] = append(lists[at-1], placed{s, r.uint()})
				flags := r.uint()
				if cools = flags&pieceCools != 0; flags&pieceMoves != 0 {
					p.InFlight = append(p.InFlight, s)
				}
			}
			if t.forms {
				p.View.Forms = append(p.View.Forms, sharding.FormSet(r.text(r.uint())))
			}
			if t.known {
				p.View.ShardLoads = append(p.View.ShardLoads, allocation.ShardLoad{Cooling: cools})
			}
		}
	}
	for piece, loads := range t.loads {
		for r := pieceReader(loads); len(r) > 0; {
			i := piece*momentShards + int(r.uint())
			var l sharding.Load
			for _, part := range loadParts(&l) {
				*part = r.uint()
			}
			p.View.ShardLoads[i].Load = allocation.LoadOf(l)
		}
	}
	for i := range p.View.Regions {
		r := &p.View.Regions[i]
		var list []placed
		if at := slices.Index(t.nodes, r.Node); at >= 0 {
			list = lists[at]
		}
		slices.SortFunc(list, func(a, b placed) int { return cmp.Compare(a.epoch, b.epoch) })
		for _, s := range list {
			r.Shards = append(r.Shards, s.shard)
		}
	}
	return p
}

// Moments lists the planning moments, the oldest first.
func (m *Machine) Moments() (list []MomentView) {
	for _, x := range m.moments.list {
		v := MomentView{At: x.at, HeldBack: x.heldBack}
		var nodes []sharding.NodeID
		for i := range x.types {
			v.Shards += x.types[i].shards
			for _, r := range x.types[i].plan.View.Regions {
				nodes = append(nodes, r.Node)
			}
		}
		slices.SortFunc(nodes, sharding.NodeID.Compare)
		v.Regions = len(slices.Compact(nodes))
		list = append(list, v)
	}
	return list
}

// momentAt returns the newest planning moment that is not after a time.
func (m *Machine) momentAt(at time.Time) (*moment, error) {
	list := m.moments.list
	switch {
	case at.After(m.now.Add(m.cfg.MomentInterval)): // clocks differ, and the last step was a moment ago
		return nil, refuse(Malformed, "%s is in the future: it is %s now", momentText(at), momentText(m.now))
	case len(list) == 0:
		return nil, refuse(NotFound, "there is no planning moment yet: this coordinator is active since %s, and records the first one when it has recovered", momentText(m.since))
	case at.Before(list[0].at):
		return nil, refuse(NotFound, "there is no planning moment at or before %s: this coordinator has %d, from %s to %s; see roost plan --moments", momentText(at), len(list), momentText(list[0].at), momentText(list[len(list)-1].at))
	}
	later := slices.IndexFunc(list, func(x *moment) bool { return x.at.After(at) })
	if later < 0 {
		later = len(list)
	}
	return list[later-1], nil
}

func momentText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// proposeAsOf returns what a plan would have been made from at an earlier moment.
func (m *Machine) proposeAsOf(q PlanQuery) (Proposal, error) {
	at, err := m.momentAt(q.AsOf)
	if err != nil {
		return Proposal{}, err
	}
	p := Proposal{At: at.at, Input: allocation.PlanInput{Budget: at.budget}, HeldBack: slices.Clone(at.heldBack)}
	for i := range at.types {
		t := &at.types[i]
		if q.Type != "" && q.Type != t.plan.View.Type {
			continue
		}
		plan := t.plan
		plan.View.Regions, plan.Strategy = slices.Clone(plan.View.Regions), m.cfg.strategy(plan.View.Type)
		p.Input.Types, p.recorded = append(p.Input.Types, plan), append(p.recorded, t)
	}
	if q.Type != "" && len(p.recorded) == 0 {
		return Proposal{}, refuse(NotFound, "there was no entity type %s at %s", q.Type, momentText(at.at))
	}
	for _, name := range q.Without {
		found := map[sharding.NodeID]bool{}
		for i := range p.Input.Types {
			for _, r := range p.Input.Types[i].View.Regions {
				if isNamed(r.Node, r.Name, []string{name}) {
					found[r.Node] = true
				}
			}
		}
		if len(found) != 1 {
			return Proposal{}, refuse(NotFound, "%d regions were called %s at %s; name one that had registered then, by its address and uid if several had the name", len(found), name, momentText(at.at))
		}
	}
	p.suppose(q, at.measured)
	return p, nil
}

// Restore completes the input of a proposal that is made as of an earlier moment. It takes long if there are many
// shards. So the driver calls it outside the loop.
func (p *Proposal) Restore() {
	for i, t := range p.recorded {
		known := p.Input.Types[i]
		full := t.restore(known.Strategy)
		for r := range full.View.Regions {
			full.View.Regions[r].Status = known.View.Regions[r].Status
		}
		full.View.Pins, full.Target = known.View.Pins, known.Target
		p.Input.Types[i] = full
	}
	p.recorded = nil
}

// Moments lists the planning moments, the oldest first.
func (t *Tenure) Moments() []MomentView { return t.m.Moments() }
