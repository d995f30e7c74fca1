package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
	"github.com/roost-cluster/roost/services/coordinator/internal/state"
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
	c.unobeyed = slices.Clone(m.unobeyed)
	c.ledger.unknown = slices.Clone(m.ledger.unknown)
	c.table.log = slices.Clone(m.table.log)
	c.table.waiting = slices.Clone(m.table.waiting)
	c.quarantine = m.quarantine.Clone()
	c.table.parked = slices.Clone(m.table.parked)
	c.term.held = slices.Clone(m.term.held)
	c.table.types = make([]*typeTable, len(m.table.types))
	for i, t := range m.table.types {
		u := *t
		u.rows = slices.Clone(t.rows)
		u.owned, u.expected = cloneHoldings(t.owned), cloneHoldings(t.expected)
		u.loads, u.shown = slices.Clone(t.loads), slices.Clone(t.shown)
		c.table.types[i] = &u
	}
	c.budget = m.budget.Clone()
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

// encoder appends the nouns of this package to a state.
type encoder struct{ state.State }

func (s *encoder) desc(d sharding.TypeDesc) {
	s.Text(string(d.Type))
	s.Uint(uint64(d.Shards))
	s.Text(d.Rule.Separator)
	s.Uint(uint64(d.Rule.Part))
	s.Uint(uint64(d.Rule.Method))
	s.Bool(d.Volatile)
	s.Uint(uint64(len(d.Commands)))
	for _, c := range d.Commands {
		s.Text(c.Name)
		s.Bool(c.ReadOnly)
		s.Bool(c.Stale)
		s.Uint(c.Input)
	}
	s.forms(d.Writes)
	s.forms(d.Reads)
	s.Bool(d.Unhosted)
	s.Text(d.LastHost)
}

func (s *encoder) forms(forms []sharding.Form) {
	s.Uint(uint64(len(forms)))
	for _, f := range forms {
		s.Uint(uint64(f.Kind))
		s.Text(f.Name)
		s.Uint(uint64(f.Version))
		s.Uint(uint64(f.ReadableBy))
		s.Uint(f.Shape)
	}
}

// AppendState appends everything that decides about later outputs, in a canonical form, with times relative to
// now. So equal states behave alike. It leaves out what only operators see: explanations, counts.
func (m *Machine) AppendState(now time.Time, b []byte) []byte {
	s := &encoder{state.State{Bytes: b, Now: now}}
	s.Bool(m.term.active)
	s.Uint(uint64(m.term.number))
	s.Node(m.term.known.Node)
	s.Uint(uint64(m.term.known.Term))
	s.Time(m.term.known.Until)
	s.Uint(uint64(len(m.term.held)))
	for _, w := range m.term.held {
		s.Uint(uint64(w.call))
		s.Uint(uint64(w.from.Term))
		s.Uint(w.from.N)
		s.Time(w.since)
	}
	s.Uint(uint64(len(m.live.regions)))
	for i := range m.live.regions {
		s.region(&m.live.regions[i])
	}
	if !m.term.active {
		return s.Bytes
	}
	if !m.term.recovered || m.intent.Len(intent.Drains) > 0 && now.Sub(m.term.since) < m.cfg.RecoveryWait {
		s.Time(m.term.since)
	}
	s.Time(m.planner.rebalanced)
	s.Time(m.live.testedAt)
	s.Time(m.live.answeredAt)
	for _, v := range []bool{m.term.recovered, m.term.open, m.review.due, m.review.short, m.review.deferred, m.live.testUnanswered, m.planner.planning} {
		s.Bool(v)
	}
	s.Uint(m.planner.plans)
	m.budget.AppendState(&s.State)
	s.Uint(uint64(m.term.counter))
	s.Uint(m.table.version.N)
	s.Uint(m.table.base)
	s.Uint(uint64(len(m.term.awaited)))
	for _, n := range m.term.awaited {
		s.Node(n)
	}
	s.intent(&m.intent)
	s.Bool(m.table.untold)
	for _, w := range m.unobeyed {
		s.Uint(w.number)
		s.Text(w.entity.String())
	}
	for _, f := range m.ledger.unknown {
		s.Text(f.Name)
		s.Text(f.Payload)
	}
	s.Bool(m.ledger.lost)
	if m.rollingOut() {
		s.Time(m.rollout.stepAt)
	}
	s.Time(m.rollout.goneAt)
	s.Uint(uint64(len(m.table.waiting)))
	for _, w := range m.table.waiting {
		s.Uint(uint64(w.call))
		s.Time(w.since)
	}
	s.Uint(uint64(len(m.table.parked)))
	for _, w := range m.table.parked {
		s.Uint(uint64(w.call))
		s.Uint(uint64(w.from.Term))
		s.Uint(w.from.N)
	}
	s.Stored = m.ledger.stored
	s.Fact(m.ledger.lastFact)
	s.Fact(m.ledger.targetFact)
	s.Fact(m.ledger.wishFact)
	for _, r := range m.quarantine.Reports() {
		s.Uint(uint64(r.Process))
		s.Bool(r.More)
		for _, e := range r.Ran {
			s.Text(string(e.Type))
			s.Text(string(e.ID))
		}
	}
	s.Uint(uint64(len(m.table.types)))
	for _, t := range m.table.types {
		s.table(t)
		s.quarantine(m, t)
	}
	return s.Bytes
}

// quarantine appends what decides about suspects and quarantined entities.
func (s *encoder) quarantine(m *Machine, t *typeTable) {
	if m.cfg.QuarantineCrashes == 0 && len(m.quarantine.Of(t.desc.Type)) == 0 {
		return
	}
	s.Uint(t.quarantineChanged)
	for _, f := range m.quarantine.Of(t.desc.Type) {
		s.Text(string(f.Entity.ID))
		s.Uint(uint64(f.State))
		for _, c := range f.Crashes {
			s.Uint(uint64(c.Process))
			s.Time(c.At)
		}
	}
	for i := range t.rows {
		r := &t.rows[i]
		for _, l := range r.losses {
			s.Node(l)
		}
		if s.Bool(r.lostSince.IsZero()); !r.lostSince.IsZero() {
			s.Time(r.lostSince)
		}
		if len(r.losses) > 0 || !r.lostSince.IsZero() {
			s.Time(r.given)
		}
	}
}

func (s *encoder) intent(in *intent.Intent) {
	for kind := intent.Drains; kind <= intent.Moves; kind++ {
		s.Uint(uint64(in.Len(kind)))
	}
	for f := range intent.All[DrainFact](in, intent.Drains) {
		s.Node(f.Region)
		s.note(f.Note)
	}
	s.Text(in.Target().Version)
	for _, v := range in.Target().Seen {
		s.Text(v)
	}
	for f := range intent.All[CordonFact](in, intent.Cordons) {
		s.Text(f.Region)
		s.Uint(uint64(f.After))
		s.note(f.Note)
	}
	if f := in.Freeze(); f.Frozen {
		s.Time(f.Until)
		s.note(f.Note)
	}
	for f := range intent.All[PinFact](in, intent.Pins) {
		s.Text(f.Shard.String())
		s.Text(f.Region)
		s.note(f.Note)
	}
	for f := range intent.All[MoveFact](in, intent.Moves) {
		s.Text(f.Shard.String())
		s.Text(f.Region)
		s.Uint(uint64(f.Epoch))
		s.note(f.Note)
	}
}

// note leaves out the time, which decides nothing.
func (s *encoder) note(n Note) {
	s.Text(n.By)
	s.Text(n.Reason)
}

func (s *encoder) region(r *region) {
	s.Node(r.node)
	s.Text(r.name)
	for _, v := range []bool{r.reachable, r.joining, r.departing, r.registered, r.shutdown, r.draining, r.stayTold, r.holdsName} {
		s.Bool(v)
	}
	s.Node(r.heldUpBy)
	s.Uint(uint64(r.table.Term))
	s.Uint(r.table.N)
	if s.Uint(uint64(r.journal.state)); r.journal.number > 0 {
		s.Uint(r.journal.number)
		s.Time(r.journal.at)
	}
	if l := &r.load; l.number > 0 {
		s.Uint(l.number)
		s.Uint(uint64(l.reports))
		s.load(l.rest)
		s.Bool(l.told)
	}
	if r.registered {
		s.Time(r.load.at)
	}
	s.Text(r.version)
	s.Text(r.zone)
	for _, l := range r.labels {
		s.Text(l.Name)
		s.Text(l.Value)
	}
	s.Uint(uint64(r.capacity))
	s.Uint(uint64(len(r.types)))
	for _, t := range r.types {
		s.desc(t)
	}
}

// table leaves out unallocated rows, and what follows from the rows: the holdings follow from owners and epochs, the
// log from the numbers of the last changes.
func (s *encoder) table(t *typeTable) {
	s.desc(t.desc)
	s.forms(t.forms)
	s.Uint(t.changed)
	s.Fact(t.number)
	s.Text(t.host)
	s.Time(t.unhosted)
	for i := range t.rows {
		r := &t.rows[i]
		if r.Epoch == 0 && !r.wanted {
			continue
		}
		s.Uint(uint64(i) + 1)
		s.Node(r.Owner)
		s.Uint(uint64(r.Epoch))
		s.Uint(uint64(r.Phase))
		s.Uint(uint64(r.Reason))
		s.Text(string(r.before))
		s.Text(string(r.may))
		s.Node(r.successor)
		s.Bool(r.transit().Moves())
		s.Uint(uint64(r.next))
		s.Text(string(r.nextMay))
		s.Bool(r.released)
		s.Text(string(r.leaves))
		s.Node(r.previous.Owner)
		s.Uint(uint64(r.previous.Epoch))
		s.Uint(r.changed)
		s.Fact(r.number)
		if inTransit(r.Row) { // otherwise nothing waits for this time
			s.Time(r.since)
		}
		s.Time(r.asked)
		s.Uint(uint64(r.tries))
		s.Uint(uint64(r.look))
		s.Bool(r.untold)
		if t.loads != nil {
			s.load(t.loads[i].Load)
			s.Node(t.loads[i].by)
			s.Time(r.since) // of a cool-down
		}
	}
	s.Uint(0)
}

func (s *encoder) load(l sharding.Load) {
	for _, v := range [...]uint64{l.HandlerMicros, l.MilliCommands, l.MilliWaiting, l.JournalBytes, l.Entities, l.Bytes} {
		s.Uint(v)
	}
}
