package coordinator

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

// Clone returns an independent copy. Outputs that were handed out before stay shared, because they are never written
// to.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out, c.scratch = nil, nil
	c.term.awaited = slices.Clone(m.term.awaited)
	c.live.regions = slices.Clone(m.live.regions) // their types are never written to
	for i := range c.live.regions {
		c.live.regions[i].forms = slices.Clone(c.live.regions[i].forms)
	}
	c.intent = m.intent.Clone()
	c.ledger.unknown = slices.Clone(m.ledger.unknown)
	c.table.log = slices.Clone(m.table.log)
	c.table.waiting = slices.Clone(m.table.waiting)
	c.quarantine = m.quarantine.Clone()
	c.table.parked = slices.Clone(m.table.parked)
	c.table.held = slices.Clone(m.table.held)
	c.table.types = make([]*typeTable, len(m.table.types))
	for i, t := range m.table.types {
		u := *t
		u.rows = slices.Clone(t.rows)
		u.owned, u.expected = cloneHoldings(t.owned), cloneHoldings(t.expected)
		u.loads, u.shown = slices.Clone(t.loads), slices.Clone(t.shown)
		c.table.types[i] = &u
	}
	c.budget = m.budget.clone()
	c.gateways.list = slices.Clone(m.gateways.list)
	c.table.expectedShards, c.table.loads = maps.Clone(m.table.expectedShards), maps.Clone(m.table.loads)
	return &c
}

func cloneHoldings(list []holding) []holding {
	list = slices.Clone(list)
	for i := range list {
		list[i].shards = slices.Clone(list[i].shards)
	}
	return list
}

// state appends values in a canonical form.
type state struct {
	b      []byte
	now    time.Time
	stored uint64
}

func (s *state) uint(v uint64) { s.b = binary.AppendUvarint(s.b, v) }

func (s *state) bool(v bool) { s.uint(uint64(toInt(v))) }

func (s *state) text(v string) {
	s.uint(uint64(len(v)))
	s.b = append(s.b, v...)
}

func (s *state) node(n sharding.NodeID) {
	s.text(n.Addr)
	s.uint(uint64(n.UID))
}

// time is relative to now: states that differ only in when they were reached behave the same.
func (s *state) time(t time.Time) {
	s.bool(t.IsZero())
	if !t.IsZero() {
		s.b = binary.AppendVarint(s.b, int64(s.now.Sub(t)))
	}
}

// fact is relative to the number of stored facts, so only pending facts have a number.
func (s *state) fact(n uint64) { s.uint(max(n, s.stored) - s.stored) }

func (s *state) desc(d sharding.TypeDesc) {
	s.text(string(d.Type))
	s.uint(uint64(d.Shards))
	s.text(d.Rule.Separator)
	s.uint(uint64(d.Rule.Part))
	s.bool(d.Volatile)
	s.uint(uint64(len(d.Commands)))
	for _, c := range d.Commands {
		s.text(c.Name)
		s.bool(c.ReadOnly)
		s.bool(c.Stale)
		s.uint(c.Input)
	}
	s.forms(d.Writes)
	s.forms(d.Reads)
	s.bool(d.Unhosted)
	s.text(d.LastHost)
}

func (s *state) forms(forms []sharding.Form) {
	s.uint(uint64(len(forms)))
	for _, f := range forms {
		s.uint(uint64(f.Kind))
		s.text(f.Name)
		s.uint(uint64(f.Version))
		s.uint(uint64(f.ReadableBy))
		s.uint(f.Shape)
	}
}

// AppendState appends everything that decides about later outputs, in a canonical form, with times relative to
// now. So equal states behave alike. It leaves out what only operators see: explanations, counts.
func (m *Machine) AppendState(now time.Time, b []byte) []byte {
	s := &state{b: b, now: now}
	s.bool(m.term.active)
	s.uint(uint64(m.term.number))
	s.node(m.term.known.Node)
	s.uint(uint64(m.term.known.Term))
	s.time(m.term.known.Until)
	s.uint(uint64(len(m.table.held)))
	for _, w := range m.table.held {
		s.uint(uint64(w.call))
		s.uint(uint64(w.from.Term))
		s.uint(w.from.N)
		s.time(w.since)
	}
	s.uint(uint64(len(m.live.regions)))
	for i := range m.live.regions {
		s.region(&m.live.regions[i])
	}
	if !m.term.active {
		return s.b
	}
	if !m.term.recovered || m.intent.Len(intent.Drains) > 0 && now.Sub(m.term.since) < m.cfg.RecoveryWait {
		s.time(m.term.since)
	}
	s.time(m.planner.rebalanced)
	s.time(m.live.testedAt)
	s.time(m.live.answeredAt)
	for _, v := range []bool{m.term.recovered, m.term.open, m.review.due, m.review.short, m.review.deferred, m.live.testUnanswered, m.planner.planning} {
		s.bool(v)
	}
	s.uint(m.planner.plans)
	s.budget(&m.budget)
	s.gateways(&m.gateways)
	s.uint(uint64(m.term.counter))
	s.uint(m.table.version.N)
	s.uint(m.table.base)
	s.uint(uint64(len(m.term.awaited)))
	for _, n := range m.term.awaited {
		s.node(n)
	}
	s.intent(&m.intent)
	s.bool(m.table.untold)
	for _, f := range m.ledger.unknown {
		s.text(f.Name)
		s.text(f.Payload)
	}
	s.bool(m.ledger.lost)
	if m.rollingOut() {
		s.time(m.rollout.stepAt)
	}
	s.time(m.rollout.goneAt)
	s.uint(uint64(len(m.table.waiting)))
	for _, w := range m.table.waiting {
		s.uint(uint64(w.call))
		s.time(w.since)
	}
	s.uint(uint64(len(m.table.parked)))
	for _, w := range m.table.parked {
		s.uint(uint64(w.call))
		s.uint(uint64(w.from.Term))
		s.uint(w.from.N)
	}
	s.stored = m.ledger.stored
	s.fact(m.ledger.lastFact)
	s.fact(m.ledger.targetFact)
	s.fact(m.ledger.wishFact)
	for _, r := range m.quarantine.Reports() {
		s.uint(uint64(r.Process))
		s.bool(r.More)
		for _, e := range r.Ran {
			s.text(string(e.Type))
			s.text(string(e.ID))
		}
	}
	s.uint(uint64(len(m.table.types)))
	for _, t := range m.table.types {
		s.table(t)
		s.quarantine(m, t)
	}
	return s.b
}

// quarantine appends what decides about suspects and quarantined entities.
func (s *state) quarantine(m *Machine, t *typeTable) {
	if m.cfg.QuarantineCrashes == 0 && len(m.quarantine.Of(t.desc.Type)) == 0 {
		return
	}
	s.uint(t.quarantineChanged)
	for _, f := range m.quarantine.Of(t.desc.Type) {
		s.text(string(f.Entity.ID))
		s.uint(uint64(f.State))
		for _, c := range f.Crashes {
			s.uint(uint64(c.Process))
			s.time(c.At)
		}
	}
	for i := range t.rows {
		r := &t.rows[i]
		for _, l := range r.losses {
			s.node(l)
		}
		if s.bool(r.lostSince.IsZero()); !r.lostSince.IsZero() {
			s.time(r.lostSince)
		}
		if len(r.losses) > 0 || !r.lostSince.IsZero() {
			s.time(r.given)
		}
	}
}

// budget leaves out what follows from the rows.
func (s *state) budget(b *budget) {
	s.bool(b.freed)
	for _, t := range b.lastMinute(s.now) {
		s.time(t)
	}
	k := &b.brake
	s.uint(uint64(k.state))
	for _, v := range []uint64{uint64(k.baseline), uint64(k.slow), uint64(k.halvings)} {
		s.uint(v)
	}
	s.bool(k.moved)
	s.bool(k.since.IsZero())
	if k.state != BrakeReleased {
		s.time(k.stateAt)
		s.time(k.trialAt)
		s.bool(k.noMoves)
	}
}

// gateways leaves out what only operators see.
func (s *state) gateways(g *gateways) {
	s.time(g.since)
	s.text(string(g.all.Sketch()))
	for i := range g.list {
		s.node(g.list[i].node)
		s.time(g.list[i].heardAt)
	}
}

func (s *state) intent(in *intent.Intent) {
	for kind := intent.Drains; kind <= intent.Moves; kind++ {
		s.uint(uint64(in.Len(kind)))
	}
	for f := range intent.All[DrainFact](in, intent.Drains) {
		s.node(f.Region)
		s.note(f.Note)
	}
	s.text(in.Target().Version)
	for _, v := range in.Target().Seen {
		s.text(v)
	}
	for f := range intent.All[CordonFact](in, intent.Cordons) {
		s.text(f.Region)
		s.uint(uint64(f.After))
		s.note(f.Note)
	}
	if f := in.Freeze(); f.Frozen {
		s.time(f.Until)
		s.note(f.Note)
	}
	for f := range intent.All[PinFact](in, intent.Pins) {
		s.text(f.Shard.String())
		s.text(f.Region)
		s.note(f.Note)
	}
	for f := range intent.All[MoveFact](in, intent.Moves) {
		s.text(f.Shard.String())
		s.text(f.Region)
		s.uint(uint64(f.Epoch))
		s.note(f.Note)
	}
}

// note leaves out the time, which decides nothing.
func (s *state) note(n Note) {
	s.text(n.By)
	s.text(n.Reason)
}

func (s *state) region(r *region) {
	s.node(r.node)
	s.text(r.name)
	for _, v := range []bool{r.reachable, r.joining, r.departing, r.registered, r.shutdown, r.draining, r.stayTold, r.holdsName} {
		s.bool(v)
	}
	s.node(r.heldUpBy)
	s.uint(uint64(r.table.Term))
	s.uint(r.table.N)
	if s.uint(uint64(r.journal.state)); r.journal.number > 0 {
		s.uint(r.journal.number)
		s.time(r.journal.at)
	}
	if l := &r.load; l.number > 0 {
		s.uint(l.number)
		s.uint(uint64(l.reports))
		s.load(l.rest)
		s.bool(l.told)
	}
	if r.registered {
		s.time(r.load.at)
	}
	s.text(r.version)
	s.text(r.zone)
	for _, l := range r.labels {
		s.text(l.Name)
		s.text(l.Value)
	}
	s.uint(uint64(r.capacity))
	s.uint(uint64(len(r.types)))
	for _, t := range r.types {
		s.desc(t)
	}
}

// table leaves out unallocated rows, and what follows from the rows: the holdings follow from owners and epochs, the
// log from the numbers of the last changes.
func (s *state) table(t *typeTable) {
	s.desc(t.desc)
	s.forms(t.forms)
	s.uint(t.changed)
	s.fact(t.number)
	s.text(t.host)
	s.time(t.unhosted)
	for i := range t.rows {
		r := &t.rows[i]
		if r.Epoch == 0 && !r.wanted {
			continue
		}
		s.uint(uint64(i) + 1)
		s.node(r.Owner)
		s.uint(uint64(r.Epoch))
		s.uint(uint64(r.Phase))
		s.uint(uint64(r.Reason))
		s.text(string(r.before))
		s.text(string(r.may))
		s.node(r.successor)
		s.bool(r.moves())
		s.uint(uint64(r.next))
		s.text(string(r.nextMay))
		s.bool(r.released)
		s.text(string(r.leaves))
		s.node(r.previous.Owner)
		s.uint(uint64(r.previous.Epoch))
		s.uint(r.changed)
		s.fact(r.number)
		if inTransit(r.Row) { // otherwise nothing waits for this time
			s.time(r.since)
		}
		s.time(r.asked)
		s.uint(uint64(r.tries))
		s.uint(uint64(r.look))
		s.bool(r.untold)
		if t.loads != nil {
			s.load(t.loads[i].Load)
			s.node(t.loads[i].by)
			s.time(r.since) // of a cool-down
		}
	}
	s.uint(0)
}

func (s *state) load(l sharding.Load) {
	for _, v := range [...]uint64{l.HandlerMicros, l.MilliCommands, l.MilliWaiting, l.JournalBytes, l.Entities, l.Bytes} {
		s.uint(v)
	}
}
