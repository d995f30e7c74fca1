package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// What the coordinator decides is emitted a second time, for people: with why, with who asked,
// and with what spoke against the other regions. Nothing depends on these records. They wait for
// nothing and hold nothing back, so one may be about a fact that was never stored.

// Decision is what the coordinator has decided, and why.
type Decision struct {
	Term sharding.Term
	N    uint64 // counts the decisions of the term, from 1
	At   time.Time
	Kind DecisionKind
	// Shard is what it is about; zero: not about one shard.
	Shard sharding.ShardID
	// From and To are regions, by name or address; "": nobody, or not known yet.
	From, To string
	// Epoch is that of the row: the new one of a Given shard, the present one of a HandedOff.
	Epoch sharding.Epoch
	Cause sharding.Cause
	// Strategy is who chooses for the type.
	Strategy string
	// Request is what was asked for, in words, By who has asked, and Reason why.
	Request, By, Reason string
	// Moves is how many moves a plan had, and Begun how many of them began.
	Moves, Begun int
	// Chosen is the region that gets the shard, Others are the best of the others, as they were
	// before the decision.
	Chosen Weighed
	Others [MaxOthers]Weighed // those without a name are none
	// Unlisted is how many more regions host the type.
	Unlisted int
	// Unweighed says that no regions are listed: it was one of very many decisions at once.
	Unweighed bool
}

// MaxOthers is how many regions are listed that did not get a shard: the next best ones are
// what people ask about.
const MaxOthers = 3

// DecisionKind says what was decided.
type DecisionKind uint8

// The kinds. The numbers are stored: they keep their meaning.
const (
	Given     DecisionKind = iota + 1 // the shard goes to a region at a new epoch, or to nobody
	HandedOff                         // its owner is to release it
	PlanMade                          // shards were to move for balance
	Requested                         // an operator, or a program, has asked for something
)

// String returns the kind in a word.
func (k DecisionKind) String() string {
	switch k {
	case Given:
		return "given"
	case HandedOff:
		return "handed-off"
	case PlanMade:
		return "plan"
	case Requested:
		return "request"
	}
	return "unknown"
}

// Weighed is a region as it was when a shard was given away.
type Weighed struct {
	Region string
	// Shards are those of the type, Total those of all types, that it has when all is done that
	// was under way.
	Shards, Total int
	// Against is what spoke against it.
	Against Against
}

// Against says why a region did not get a shard.
type Against uint8

// What may speak against a region. The numbers are stored: they keep their meaning.
const (
	AgainstOwner       Against = iota + 1 // the shard is taken from it
	AgainstUnreachable                    // it is unreachable, or has not registered
	AgainstJoining                        // it is not up yet
	AgainstLeaving                        // it leaves
	AgainstDraining                       // it is being drained
	AgainstJournal                        // it does not reach the journal, or has not for long
	AgainstForms                          // it does not read what may be stored in the shard
	AgainstCapacity                       // it has as many shards as its capacity
	AgainstPin                            // the shard is pinned to another region
	AgainstCordon                         // it is cordoned
	AgainstVersion                        // it does not have the target version of the rollout
	AgainstSuccessor                      // a plan, or an operator, has named another one
	AgainstZone                           // its zone has its share
	AgainstShards                         // it has more shards
	AgainstStrategy                       // the strategy has chosen another one
)

var againstNames = [...]string{
	"", "owner", "unreachable", "joining", "leaving", "draining", "journal", "forms", "capacity", "pin", "cordon", "version",
	"successor", "zone", "shards", "strategy",
}

// String returns the name; "unknown" for what a later release has stored.
func (a Against) String() string {
	if int(a) >= len(againstNames) {
		return "unknown"
	}
	return againstNames[a]
}

// decide emits a decision.
func (m *Machine) decide(d Decision) {
	m.decisions++
	d.Term, d.N, d.At = m.term, m.decisions, factTime(m.now)
	m.emit(Decided{Decision: d})
}

// decideRow emits a decision about a row that is not applied yet. Forms are those that the next
// owner must read.
func (m *Machine) decideRow(kind DecisionKind, t *typeTable, r *row, f RowFact, to sharding.NodeID) {
	if mutant.On("decision-made") {
		return
	}
	d := Decision{
		Kind: kind, Shard: r.Shard, From: m.label(r.Owner), To: m.label(to), Epoch: f.Row.Epoch, Cause: f.Cause,
		Strategy: allocation.NameOf(m.cfg.strategy(t.desc.Type)),
	}
	if mutant.On("decision-cause") {
		d.Cause = r.cause
	}
	if pin, found := t.searchPin(r.Shard.Index); found && (f.Cause == sharding.CausePin || t.pins[pin].Region == d.To) {
		d.By, d.Reason = t.pins[pin].By, t.pins[pin].Reason
	}
	if forms := f.Before; !to.IsZero() {
		if kind == HandedOff {
			forms = r.stored()
		}
		m.weigh(&d, t, r, forms, to)
	}
	m.decide(d)
}

// label names a region for people; "" is nobody.
func (m *Machine) label(node sharding.NodeID) string {
	if r := m.region(node); r != nil {
		return cmp.Or(r.name, node.Addr)
	}
	return node.Addr
}

// weigh lists the regions that might have got a shard, the best of them first.
func (m *Machine) weigh(d *Decision, t *typeTable, r *row, forms sharding.FormSet, to sharding.NodeID) {
	if m.weighed++; m.weighed > m.cfg.MaxWeighed {
		d.Unweighed = true
		return
	}
	var chosen *region
	if chosen = m.region(to); chosen == nil {
		return
	}
	d.Chosen = m.weight(t, chosen)
	n := 0
	for i := range m.regions {
		o := &m.regions[i]
		if o.node == to || o.registered && !o.hosts(t.desc.Type) {
			continue
		}
		n++
		w := m.weight(t, o)
		w.Against = m.against(t, r, forms, chosen, o)
		for at := range d.Others {
			if d.Others[at].Region == "" || compareWeighed(w, d.Others[at]) < 0 {
				d.Others[at], w = w, d.Others[at]
			}
			if w.Region == "" {
				break
			}
		}
	}
	d.Unlisted = max(0, n-MaxOthers)
}

// compareWeighed orders regions by how close they were to get a shard: what comes late in the
// list of what may speak against them is the weaker reason.
func compareWeighed(a, b Weighed) int {
	return cmp.Or(-cmp.Compare(a.Against, b.Against), cmp.Compare(a.Shards, b.Shards), cmp.Compare(a.Total, b.Total))
}

func (m *Machine) weight(t *typeTable, r *region) Weighed {
	return Weighed{Region: m.label(r.node), Shards: len(shardsIn(t.expected, r.node)), Total: m.expected[r.node]}
}

// against says what spoke against a region, as far as it can be said in a word.
func (m *Machine) against(t *typeTable, r *row, forms sharding.FormSet, chosen, o *region) Against {
	pin := t.pin(r.Shard)
	switch {
	case o.node == r.Owner:
		return AgainstOwner
	case !o.reachable || !o.registered:
		return AgainstUnreachable
	case o.joining:
		return AgainstJoining
	case o.going || o.leaving:
		return AgainstLeaving
	case o.draining:
		return AgainstDraining
	case o.cutOff() || o.recovering():
		return AgainstJournal
	case !o.readable(t, forms):
		return AgainstForms
	case o.capacity > 0 && m.expected[o.node] >= int(o.capacity):
		return AgainstCapacity
	case pin != "" && o.name != pin:
		return AgainstPin
	case m.cordoned(o.name):
		return AgainstCordon
	case m.frozen() && o.version != m.target.Version && chosen.version == m.target.Version:
		return AgainstVersion
	case r.successor == chosen.node:
		return AgainstSuccessor
	case o.zone != chosen.zone && len(shardsIn(t.expected, o.node)) < len(shardsIn(t.expected, chosen.node)):
		return AgainstZone
	case len(shardsIn(t.expected, o.node)) > len(shardsIn(t.expected, chosen.node)):
		return AgainstShards
	}
	return AgainstStrategy
}

// decidePlan emits that a plan was made, if it has moves.
func (m *Machine) decidePlan(moves, begun int) {
	if moves > 0 {
		m.decide(Decision{Kind: PlanMade, Moves: moves, Begun: begun})
	}
}

// decideRequest emits what an operator has asked for, with the fact that carries it out.
func (m *Machine) decideRequest(f Fact) {
	d := Decision{Kind: Requested}
	note := func(n Note, text string) { d.By, d.Reason, d.Request = n.By, n.Reason, text }
	switch f := f.(type) {
	case CordonFact:
		d.To = f.Region
		note(f.Note, map[bool]string{false: "cordon", true: "uncordon"}[f.Lifted])
	case FreezeFact:
		text := "thaw"
		if f.Frozen {
			text = "freeze"
			if !f.Until.IsZero() {
				text += " until " + f.Until.Format(time.RFC3339)
			}
		}
		note(f.Note, text)
	case PinFact:
		d.Shard, d.To = f.Shard, f.Region
		note(f.Note, map[bool]string{false: "pin", true: "unpin"}[f.Region == ""])
	case MoveFact:
		d.Shard, d.To, d.Epoch = f.Shard, f.Region, f.Epoch
		note(f.Note, "move")
	case DrainFact:
		d.To, d.Request = m.label(f.Region), map[bool]string{false: "drain", true: "end the drain"}[f.Resume]
	}
	m.decide(d)
}

// ShardView is where a shard is, and why.
type ShardView struct {
	sharding.Row
	Region string // the owner's name, or its address
	Next   string // the region that is to get it next; "": not known
	Cause  sharding.Cause
	Pin    PinFact // if it is pinned: it has a region then
}

// Shard returns where a shard is, and why. The
// type is zero if there is no such one.
func (m *Machine) Shard(id sharding.ShardID) (v ShardView, of sharding.TypeDesc) {
	i, found := m.searchType(id.Type)
	if !found {
		return v, of
	}
	t := m.types[i]
	if int64(id.Index) >= int64(len(t.rows)) {
		return v, t.desc
	}
	r := &t.rows[id.Index]
	v = ShardView{Row: r.Row, Region: m.label(r.Owner), Next: m.label(r.successor), Cause: r.cause}
	if at, found := t.searchPin(id.Index); found {
		v.Pin = t.pins[at]
	}
	return v, t.desc
}

// Alternatives returns those of the others that have a name.
func (d *Decision) Alternatives() []Weighed {
	n := slices.IndexFunc(d.Others[:], func(w Weighed) bool { return w.Region == "" })
	if n < 0 {
		n = MaxOthers
	}
	return d.Others[:n]
}
