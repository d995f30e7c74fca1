package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

// Decisions are stored as facts. For people, the coordinator also emits an explanation of each decision:
// why it was made, who asked for it, and why other regions were not chosen. No core reads explanations.
// An explanation does not wait for its fact, so the fact may never be stored.

// Explanation describes a decision of the coordinator and its reason.
type Explanation struct {
	Term sharding.Term
	N    uint64 // counts the explanations of the term, from 1
	At   time.Time
	Kind ExplanationKind
	// Shard is the shard that the decision is about; zero: the decision is not about one shard.
	Shard sharding.ShardID
	// From and To are regions, by name or address; "": no region, or not known yet.
	From, To string
	// Epoch is an epoch of the row. For Given it is the new epoch, for HandedOff the present one.
	Epoch sharding.Epoch
	Cause sharding.Cause
	// Strategy is the name of the type's strategy.
	Strategy string
	// Request is the text of a request. By names its sender, Reason is the sender's reason.
	Request, By, Reason string
	// Moves is the number of moves in a plan. Begun is the number of these moves that began.
	Moves, Begun int
	// Chosen is the region that gets the shard. Others are the next best regions. Both describe the
	// regions before the decision.
	Chosen Weighed
	Others [MaxOthers]Weighed // an element without a name is empty
	// Unlisted is the number of further regions that host the type.
	Unlisted int
	// Unweighed is true if no regions are listed because too many decisions were made at once.
	Unweighed bool
	// Loads are those that the strategy "load" has looked at; zero: it was not asked, or the loads are
	// not known.
	Loads WeighedLoads
}

// WeighedLoads are the loads of a shard and of two regions before the decision to move the shard from one
// to the other, as the strategy counts them.
type WeighedLoads struct{ Shard, From, To WeighedLoad }

// WeighedLoad is a load in processors. Waiting is the part of it that commands count for because they wait. Of is the
// number of processors that the strategy divides the load by; 0 for a shard.
type WeighedLoad struct{ Cost, Waiting, Of float64 }

// MaxOthers is the number of regions without the shard that an explanation lists. People mostly ask about the next
// best regions.
const MaxOthers = 3

// ExplanationKind is the kind of a decision.
type ExplanationKind uint8

// The kinds. The numbers are stored, so a number must keep its meaning.
const (
	Given     ExplanationKind = iota + 1 // the shard is given to a region, or to none, at a new epoch
	HandedOff                            // the owner must release the shard
	PlanMade                             // a plan of moves was made
	Requested                            // an operator, or a program, has sent a request
)

// String returns the name of the kind.
func (k ExplanationKind) String() string {
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

// Weighed describes a region at the time of a decision about a shard.
type Weighed struct {
	Region string
	// Shards is the number of the region's shards of the type, Total the number of its shards of all types. Both
	// expect that all moves in progress have ended.
	Shards, Total int
	// Against is the reason why the region was not chosen.
	Against Against
}

// Against is the reason why a region did not get a shard.
type Against uint8

// The reasons. The numbers are stored, so a number must keep its meaning.
const (
	AgainstOwner       Against = iota + 1 // it is the present owner
	AgainstUnreachable                    // it is unreachable, or has not registered
	AgainstJoining                        // it is not up yet
	AgainstLeaving                        // it leaves
	AgainstDraining                       // it is being drained
	AgainstJournal                        // it does not reach the journal, or has reached it only recently
	AgainstForms                          // it does not read what may be stored in the shard
	AgainstCapacity                       // it has as many shards as its capacity
	AgainstPin                            // the shard is pinned to another region
	AgainstCordon                         // it is cordoned
	AgainstVersion                        // it does not have the target version of the rollout
	AgainstSuccessor                      // a plan, or an operator, has named another region
	AgainstZone                           // it has fewer shards than the chosen region, but is in another zone
	AgainstShards                         // it has more shards than the chosen region, and the strategy goes by that
	AgainstStrategy                       // none of these: the strategy has chosen another region
	AgainstName                           // another region holds its name
)

var againstNames = [...]string{
	"", "owner", "unreachable", "joining", "leaving", "draining", "journal", "forms", "capacity", "pin", "cordon", "version",
	"successor", "zone", "shards", "strategy", "name",
}

// String returns the name of the reason; "unknown" if only a later release knows the reason.
func (a Against) String() string {
	if int(a) >= len(againstNames) {
		return "unknown"
	}
	return againstNames[a]
}

// why explains decisions, before their facts are applied. It reads placement, and changes nothing that decides.
type why struct {
	explanations uint64 // how many explanations were emitted in this term
	weighed      int    // how many regions were weighed for explanations since the last tick, see Config.MaxWeighed
}

// explain emits an explanation.
func (y *why) explain(pl *placement, d Explanation) {
	y.explanations++
	d.Term, d.N, d.At = pl.term.number, y.explanations, fact.Time(pl.now)
	pl.emit(Explained{Explanation: d})
}

// explainRow explains a decision about a row, before its fact is applied.
func (y *why) explainRow(pl *placement, kind ExplanationKind, t *typeTable, r *row, f RowFact, to sharding.NodeID) {
	// Invariant: each change of a shard's owner and each handoff has an explanation ([`roost shard
	// show`](../running/placement.md#knowing-why) shows it).
	// Guarded by: `coordinator.explainRow` emits an `Explanation` with each fact.
	// Mutants: explanation-made, explanation-cause
	//mutant:do explanation-made return
	d := Explanation{
		Kind: kind, Shard: r.Shard, From: pl.live.label(r.Owner), To: pl.live.label(to), Epoch: f.Row.Epoch, Cause: f.Cause,
		Strategy: allocation.NameOf(pl.cfg.strategy(t.desc.Type)),
	}
	//mutant:do explanation-cause d.Cause = r.cause
	if pin, found := pl.intent.Pin(r.Shard); found && (f.Cause == sharding.CausePin || pin.Region == d.To) {
		d.By, d.Reason = pin.By, pin.Reason
	}
	if move, found := pl.intent.Move(r.Shard); found && f.Cause == sharding.CauseMove {
		d.By, d.Reason = move.By, move.Reason
	}
	if drain, found := pl.intent.Drain(r.Owner); found && f.Cause == sharding.CauseDrain {
		d.By, d.Reason = drain.By, drain.Reason
	}
	if forms := f.Before; !to.IsZero() {
		if kind == HandedOff {
			forms = r.stored()
		}
		y.weigh(pl, &d, t, r, forms, to)
	}
	y.explain(pl, d)
}

// weigh lists the regions that might have got the shard, best first. They must read the given forms.
func (y *why) weigh(pl *placement, d *Explanation, t *typeTable, r *row, forms sharding.FormSet, to sharding.NodeID) {
	if y.weighed += len(pl.live.regions); y.weighed > max(pl.cfg.MaxWeighed, len(pl.live.regions)) {
		d.Unweighed = true
		return
	}
	var chosen *region
	if chosen = pl.live.region(to); chosen == nil {
		return
	}
	d.Chosen = y.weight(pl, t, chosen)
	d.Loads = y.weighLoads(pl, t, r, chosen)
	n := 0
	for i := range pl.live.regions {
		o := &pl.live.regions[i]
		if o.node == to || o.registered && !o.hosts(t.desc.Type) {
			continue
		}
		n++
		w := y.weight(pl, t, o)
		if w.Against = y.against(pl, t, r, forms, chosen, o, w.Shards-d.Chosen.Shards); w.Against == AgainstShards && !y.byShards(pl, d) {
			w.Against = AgainstStrategy
		}
		if w.Against > AgainstSuccessor && d.Cause == sharding.CauseMove {
			w.Against = AgainstSuccessor
		}
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

// byShards reports whether the strategy of a decision prefers the region with the fewest shards.
func (y *why) byShards(pl *placement, d *Explanation) bool {
	switch pl.cfg.strategy(d.Shard.Type).(type) {
	case allocation.LeastShards, allocation.Threshold, allocation.External:
		return true
	case allocation.LeastLoad:
		return d.Loads == WeighedLoads{}
	}
	return false
}

// weighLoads returns the loads that speak for moving the shard of a row. A shard that is on its way to
// the chosen region already was weighed when its handoff began.
func (y *why) weighLoads(pl *placement, t *typeTable, r *row, chosen *region) (l WeighedLoads) {
	s, byLoad := pl.cfg.strategy(t.desc.Type).(allocation.LeastLoad)
	if !byLoad || r.expectedOwner() == chosen.node {
		return l
	}
	shards := pl.shardLoads(t)
	if int(r.Shard.Index) >= len(shards) || shards[r.Shard.Index].Load == (allocation.Load{}) {
		return l
	}
	weigh := func(load allocation.Load) WeighedLoad {
		return WeighedLoad{Cost: s.Weights.Cost(load), Waiting: s.Weights.Cost(load) - s.Weights.Work(load)}
	}
	l.Shard, l.To = weigh(shards[r.Shard.Index].Load), weigh(pl.loadOf(chosen))
	l.To.Of = s.Weights.Divisor(processorsOf(chosen.load.node))
	if owner := pl.live.region(r.Owner); owner != nil {
		l.From = weigh(pl.loadOf(owner))
		l.From.Of = s.Weights.Divisor(processorsOf(owner.load.node))
	}
	return l
}

// compareWeighed orders regions by how nearly they were chosen. A reason with a higher number is
// weaker.
func compareWeighed(a, b Weighed) int {
	return cmp.Or(-cmp.Compare(a.Against, b.Against), cmp.Compare(a.Shards, b.Shards), cmp.Compare(a.Total, b.Total))
}

func (y *why) weight(pl *placement, t *typeTable, r *region) Weighed {
	return Weighed{Region: cmp.Or(r.name, r.node.Addr), Shards: len(shardsIn(t.expected, r.node)), Total: pl.table.expectedShards[r.node]}
}

// against returns the main reason why region o did not get the shard. Region o has more shards of the
// type than the chosen region by the given number.
func (y *why) against(pl *placement, t *typeTable, r *row, forms sharding.FormSet, chosen, o *region, more int) Against {
	pin, unfit := pl.intent.PinnedTo(r.Shard), o.unfit()
	switch {
	case o.node == r.Owner:
		return AgainstOwner
	case unfit != 0:
		return unfit
	case !o.readable(t.desc.Type, forms):
		return AgainstForms
	case o.capacity > 0 && pl.table.expectedShards[o.node] >= int(o.capacity):
		return AgainstCapacity
	case pin != "" && o.name != pin:
		return AgainstPin
	case pl.intent.Cordoned(o.name):
		return AgainstCordon
	case pl.frozenByRollout() && o.version != pl.intent.Target().Version && chosen.version == pl.intent.Target().Version:
		return AgainstVersion
	case r.successor == chosen.node:
		return AgainstSuccessor
	case o.zone != chosen.zone && more < 0:
		return AgainstZone
	case more > 0:
		return AgainstShards
	}
	return AgainstStrategy
}

// explainPlan explains a plan, if the plan has moves.
func (y *why) explainPlan(pl *placement, moves, begun int) {
	if moves > 0 {
		y.explain(pl, Explanation{Kind: PlanMade, Moves: moves, Begun: begun})
	}
}

// explainRequest explains a request of an operator. The fact is the request's effect.
func (y *why) explainRequest(pl *placement, f Fact) {
	d := Explanation{Kind: Requested}
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
	case QuarantineFact:
		if t, r := pl.table.rowOf(f.Entity); t != nil {
			d.Shard = r.Shard
		}
		note(f.Note, map[bool]string{false: "release ", true: "quarantine "}[f.State == Quarantined]+f.Entity.String())
	case DrainFact:
		d.To = pl.live.label(f.Region)
		note(f.Note, map[bool]string{false: "drain", true: "end the drain"}[f.Resume])
	}
	y.explain(pl, d)
}

// ShardView describes where a shard is, and why.
type ShardView struct {
	sharding.Row
	Region string // the owner's name, or its address
	Next   string // the region that gets the shard next; "": not known
	Cause  sharding.Cause
	Pin    PinFact // the pin of the shard; without a Region: the shard is not pinned
}

// Shard returns where a shard is, and why. If the entity type is unknown, the returned type is zero.
func (m *Machine) Shard(id sharding.ShardID) (v ShardView, of sharding.TypeDesc) {
	i, found := m.table.searchType(id.Type)
	if !found {
		return v, of
	}
	t := m.table.types[i]
	if int64(id.Index) >= int64(len(t.rows)) {
		return v, t.desc
	}
	r := &t.rows[id.Index]
	v = ShardView{Row: r.Row, Region: m.live.label(r.Owner), Next: m.live.label(r.successor), Cause: r.cause}
	v.Pin, _ = m.intent.Pin(id)
	return v, t.desc
}

// Alternatives returns the elements of Others that are not empty.
func (d *Explanation) Alternatives() []Weighed {
	n := slices.IndexFunc(d.Others[:], func(w Weighed) bool { return w.Region == "" })
	if n < 0 {
		n = MaxOthers
	}
	return d.Others[:n]
}
