package coordinator

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Clone returns an independent copy. Outputs handed out before stay shared;
// nobody writes to them.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out, c.scratch = nil, nil
	c.awaited = slices.Clone(m.awaited)
	c.regions = slices.Clone(m.regions) // their types are never written to
	for i := range c.regions {
		c.regions[i].forms = slices.Clone(c.regions[i].forms)
	}
	c.drained = slices.Clone(m.drained)
	c.steering.cordons, c.steering.moves = slices.Clone(m.steering.cordons), slices.Clone(m.steering.moves)
	c.unknown = slices.Clone(m.unknown)
	c.log = slices.Clone(m.log)
	c.waiting = slices.Clone(m.waiting)
	c.reports = slices.Clone(m.reports)
	c.parked = slices.Clone(m.parked)
	c.types = make([]*typeTable, len(m.types))
	for i, t := range m.types {
		u := *t
		u.rows = slices.Clone(t.rows)
		u.owned, u.expected = cloneHoldings(t.owned), cloneHoldings(t.expected)
		u.pins = maps.Clone(t.pins)
		u.suspects = slices.Clone(t.suspects) // their crashes are never written to
		u.loads, u.shown = slices.Clone(t.loads), slices.Clone(t.shown)
		c.types[i] = &u
	}
	c.budget = m.budget.clone()
	c.moments.list = slices.Clone(m.moments.list) // moments are never written to
	c.gateways.list = slices.Clone(m.gateways.list)
	c.expectedShards, c.loads = maps.Clone(m.expectedShards), maps.Clone(m.loads)
	return &c
}

func cloneHoldings(list []holding) []holding {
	list = slices.Clone(list)
	for i := range list {
		list[i].shards = slices.Clone(list[i].shards)
	}
	return list
}

// state appends values to a canonical form.
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

// time is relative to now: two states that differ by when they are reached
// behave the same.
func (s *state) time(t time.Time) {
	s.bool(t.IsZero())
	if !t.IsZero() {
		s.b = binary.AppendVarint(s.b, int64(s.now.Sub(t)))
	}
}

// fact is relative to what is stored: only pending facts have a number.
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

// AppendState appends everything that decides about later outputs, in a
// canonical form, times relative to now: equal states behave alike. It leaves out
// explanations, moments and counts for operators.
func (m *Machine) AppendState(now time.Time, b []byte) []byte {
	s := &state{b: b, now: now}
	s.bool(m.active)
	s.uint(uint64(m.term))
	s.node(m.knownActive.Node)
	s.uint(uint64(m.knownActive.Term))
	s.uint(uint64(len(m.regions)))
	for i := range m.regions {
		s.region(&m.regions[i])
	}
	if !m.active {
		return s.b
	}
	if !m.recovered || len(m.drained) > 0 && now.Sub(m.since) < m.cfg.RecoveryWait {
		s.time(m.since)
	}
	s.time(m.rebalanced)
	s.time(m.testedAt)
	s.time(m.answeredAt)
	for _, v := range []bool{m.recovered, m.open, m.reviewDue, m.short, m.deferred, m.testUnanswered, m.planning} {
		s.bool(v)
	}
	s.uint(m.plans)
	s.budget(&m.budget)
	s.gateways(&m.gateways)
	s.uint(uint64(m.counter))
	s.uint(m.n)
	s.uint(m.base)
	s.uint(uint64(len(m.awaited)))
	for _, n := range m.awaited {
		s.node(n)
	}
	s.uint(uint64(len(m.drained)))
	for _, f := range m.drained {
		s.node(f.Region)
		s.note(f.Note)
	}
	s.steering(&m.steering)
	s.bool(m.untold)
	for _, f := range m.unknown {
		s.text(f.Name)
		s.text(f.Payload)
	}
	s.text(m.target.Version)
	for _, v := range m.target.Seen {
		s.text(v)
	}
	if m.rollingOut() {
		s.time(m.rolloutStep)
	}
	s.time(m.targetGone)
	s.uint(uint64(len(m.waiting)))
	for _, w := range m.waiting {
		s.uint(uint64(w.call))
		s.time(w.since)
	}
	s.uint(uint64(len(m.parked)))
	for _, w := range m.parked {
		s.uint(uint64(w.call))
		s.uint(uint64(w.from.Term))
		s.uint(w.from.N)
	}
	s.stored = m.stored
	s.fact(m.lastFact)
	s.fact(m.targetFact)
	s.fact(m.steering.lastFact)
	for _, r := range m.reports {
		s.uint(uint64(r.process))
		s.bool(r.more)
		for _, e := range r.ran {
			s.text(string(e.Type))
			s.text(string(e.ID))
		}
	}
	s.uint(uint64(len(m.types)))
	for _, t := range m.types {
		s.table(t)
		s.quarantine(m, t)
	}
	return s.b
}

// quarantine has what decides about suspects and quarantined entities.
func (s *state) quarantine(m *Machine, t *typeTable) {
	if m.cfg.QuarantineCrashes == 0 && len(t.suspects) == 0 {
		return
	}
	s.uint(t.quarantineChanged)
	for _, f := range t.suspects {
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

// budget leaves out what the rows say.
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

// gateways leaves out what only operators look at, and changes nothing.
func (s *state) gateways(g *gateways) {
	s.time(g.since)
	s.text(string(g.all.Sketch()))
	for i := range g.list {
		s.node(g.list[i].node)
		s.time(g.list[i].heardAt)
	}
}

func (s *state) steering(v *steering) {
	s.uint(uint64(len(v.cordons)))
	for _, c := range v.cordons {
		s.text(c.Region)
		s.uint(uint64(c.After))
		s.note(c.Note)
	}
	if s.bool(v.freeze.Frozen); v.freeze.Frozen {
		s.time(v.freeze.Until)
		s.note(v.freeze.Note)
	}
	s.uint(uint64(len(v.moves)))
	for _, f := range v.moves {
		s.text(f.Shard.String())
		s.text(f.Region)
		s.uint(uint64(f.Epoch))
		s.note(f.Note)
	}
}

// note leaves out since when, which decides nothing.
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

// table leaves out unallocated rows, and what the rows say anyway: holdings by
// owner and epoch, the log by the numbers of the last changes.
func (s *state) table(t *typeTable) {
	s.desc(t.desc)
	s.forms(t.forms)
	s.uint(t.changed)
	s.fact(t.number)
	s.text(t.host)
	s.time(t.unhosted)
	for _, p := range t.sortedPins() {
		s.uint(uint64(p.Shard.Index) + 1)
		s.text(p.Region)
		s.note(p.Note)
	}
	s.uint(0)
	for i := range t.rows {
		r := &t.rows[i]
		if r.Epoch == 0 {
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
		if inTransit(r.Row) { // else nobody waits
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

// View is the coordinator as an operator sees it. It shares nothing that is
// written to later.
type View struct {
	Active bool
	Term   sharding.Term
	// Known is the coordinator that a standby believes to be active.
	Known   Active
	Version sharding.Version
	// Recovered says that the wait for the owners of earlier terms is over,
	// Open that enough regions have registered to begin allocating.
	Recovered, Open bool
	Types           []sharding.TypeDesc
	Rows            []sharding.Row     // allocated ones, sorted
	Causes          []sharding.Cause   // of Rows, in the same order: why a shard is at its owner, or leaves
	Unreadable      []UnreadableShards // sorted by type
	Regions         []RegionView       // members, sorted by node
	// Homeless are the shards that need a region and have none, or whose region is gone, except unreadable ones, those that wait longest first:
	// at most MaxHomeless of them. HomelessAll is their number.
	Homeless    []Homeless
	HomelessAll int
	// Handoffs is the number of rows that hand off now.
	Handoffs int
	Brake    BrakeView
	Broken   []BrokenView  // all constraints, the most important one first
	Gateways []GatewayView // sorted by node
	Rollout  RolloutView
	// Freeze is in force if it is Frozen.
	Freeze FreezeFact
}

// MaxHomeless is how many shards without a region a [View] lists: enough for an operator to see of which
// types they are.
const MaxHomeless = 10

// Homeless is a shard that has no region.
type Homeless struct {
	Shard sharding.ShardID
	For   time.Duration // in this term
}

// homeless fills the list of shards that have no region.
func (v *View) homeless(m *Machine) {
	for _, t := range m.types {
		for i := range t.rows {
			switch r := &t.rows[i]; {
			case r.Epoch == 0 || r.Reason == sharding.Unreadable:
			case r.Owner.IsZero():
				v.Homeless = append(v.Homeless, Homeless{r.Shard, m.now.Sub(r.since)})
			case !r.lostSince.IsZero() && m.region(r.awaited()) == nil: // no other region can be given it
				v.Homeless = append(v.Homeless, Homeless{r.Shard, m.now.Sub(r.lostSince)})
			}
		}
	}
	v.HomelessAll = len(v.Homeless)
	slices.SortStableFunc(v.Homeless, func(a, b Homeless) int { return cmp.Compare(b.For, a.For) })
	v.Homeless = slices.Clip(v.Homeless[:min(len(v.Homeless), MaxHomeless)])
}

// RegionView is one region as the coordinator sees it.
type RegionView struct {
	Node    sharding.NodeID
	Name    string
	Version string // of the application
	Types   []sharding.EntityType
	// What the region said about itself: see control.Register.
	Zone     string
	Labels   []control.Label
	Capacity uint32
	// Reachable is the verdict of this coordinator's detector, Registered
	// whether the region has registered in this term.
	Reachable, Registered bool
	// Joining: not up yet, and so given nothing. Leaving: on its way out. Draining: emptied because an operator asked for it.
	Joining, Leaving, Draining bool
	// Cordoned: an operator wants it to get no more shards.
	Cordoned bool
	// Journal is what the region says of its journal.
	Journal sharding.JournalState
	// Load is what is known of the load that the region has when what is under way has ended,
	// and Process what its process has and uses, if the region has reported any. LoadComplete
	// says that it has reported as much as the strategy "load" needs.
	Load                       allocation.Load
	Process                    control.NodeLoad
	LoadReported, LoadComplete bool
	// Shards counts the rows that name it, HandingOff those that hand off.
	Shards, HandingOff int
	// Stays are those of its shards that no other region can be given now.
	Stays []UnreadableShards
}

// View returns what an operator may want to see.
func (m *Machine) View() View {
	full := m.full()
	v := View{
		Active: m.active, Term: m.term, Known: m.knownActive, Version: full.Version,
		Recovered: m.recovered, Open: m.open,
		Types: full.Types, Rows: full.Rows, Unreadable: m.unreadableShards(func(*row) bool { return true }), Handoffs: m.budget.handoffs, Brake: m.budget.brake.view(&m.cfg), Broken: m.broken.view(), Gateways: m.gateways.views(), Rollout: m.rolloutView(),
		Freeze: m.steering.freeze, Causes: make([]sharding.Cause, 0, len(full.Rows)),
	}
	v.homeless(m)
	for _, t := range m.types {
		for i := range t.rows {
			if r := &t.rows[i]; r.Epoch != 0 {
				v.Causes = append(v.Causes, r.cause)
			}
		}
	}
	for i := range m.regions {
		r := &m.regions[i]
		rv := RegionView{
			Node: r.node, Name: r.name, Version: r.version, Types: typesOf(r.types),
			Zone: r.zone, Labels: slices.Clone(r.labels), Capacity: r.capacity,
			Reachable: r.reachable, Registered: r.registered,
			Joining: r.joining, Leaving: r.leaving(), Draining: r.draining, Cordoned: m.cordoned(r.name),
			Journal: r.journal.state,
		}
		rv.Stays = m.staying(r)
		if r.load.reports > 0 {
			rv.Load, rv.Process, rv.LoadReported, rv.LoadComplete = m.loadOf(r), r.load.node, true, m.measuredOf(r)
		}
		for _, t := range m.types {
			shards := t.shardsOf(r.node)
			rv.Shards += len(shards)
			for _, s := range shards {
				rv.HandingOff += toInt(t.rows[s.Index].Phase == sharding.HandingOff)
			}
		}
		v.Regions = append(v.Regions, rv)
	}
	return v
}

func typesOf(descs []sharding.TypeDesc) []sharding.EntityType {
	types := make([]sharding.EntityType, len(descs))
	for i := range descs {
		types[i] = descs[i].Type
	}
	return types
}
