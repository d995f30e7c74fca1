package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
)

// Requests about single shards: to pin them, and to move them once.

// PinShards is a request of an operator, or of a program, to pin shards to regions. The request is
// carried out for all of its shards or for none. Ahead allows names that no region has now.
type PinShards struct {
	Pins       []Pin
	Ahead      bool
	By, Reason string
}

// Pin asks that a shard be at the region with the name Region. If Region is empty, it ends the pin of
// the shard.
type Pin struct {
	Shard  sharding.ShardID
	Region string
}

// Origin returns who asks, and why.
func (in PinShards) Origin() (by, reason string) { return in.By, in.Reason }

func (in PinShards) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkOrigin(in); err != nil {
		return e, nil, err
	}
	if n := len(in.Pins); n == 0 || n > m.cfg.MaxPins {
		return e, nil, refuse(Malformed, "a request has 1 to %d shards, this one has %d; split it", m.cfg.MaxPins, n)
	}
	asked := make(map[sharding.ShardID]bool, len(in.Pins))
	names := map[string]string{} // names of regions, by the text that was given
	move, notes := 0, map[string]bool{}
	for _, p := range in.Pins {
		t, r, err := m.table.findShard(p.Shard)
		if err != nil {
			return e, nil, err
		}
		if asked[p.Shard] {
			return e, nil, refuse(Malformed, "%v is there twice; pin it to one region", p.Shard)
		}
		asked[p.Shard] = true
		name, known := names[p.Region]
		if !known && p.Region != "" {
			if name, err = m.live.regionName(p.Region, in.Ahead); err != nil {
				return e, nil, err
			}
			names[p.Region] = name
		}
		e.Region = name
		pin, found := m.intent.Pin(p.Shard)
		if found && name != "" && pin.Region == name && (in.Reason == "" || pin.By == in.By && pin.Reason == in.Reason) || !found && name == "" {
			continue
		}
		facts = append(facts, PinFact{Shard: p.Shard, Region: name, Note: m.note(in.By, in.Reason)})
		if name == "" {
			continue
		}
		if m.intent.Cordoned(name) {
			notes[name+" is cordoned; the pin counts more than the cordon"] = true
		}
		if why := m.whyNoneTakes(t, r, name); why != "" {
			notes[name+" "+why+"; until it can take the shard, another region has the shard"] = true
		} else if owner := m.live.region(r.Owner); r.Epoch != 0 && (owner == nil || owner.name != name) {
			move++
		}
	}
	e.Changes, e.Already = len(facts), len(facts) == 0
	if len(names) > 1 {
		e.Region = ""
	}
	if move > 0 {
		text := fmt.Sprintf("shards that move there as soon as that is possible: %d", move)
		if m.intent.Frozen(m.now) {
			text = fmt.Sprintf("shards that move there when the freeze has ended, see roost placement freeze --undo: %d", move)
		}
		e.Remarks = append(e.Remarks, text)
	}
	for text := range notes { // sorted below
		e.Remarks = append(e.Remarks, text)
	}
	slices.Sort(e.Remarks)
	return e, facts, nil
}

// whyNoneTakes returns the reason why no region with the given name can take a shard now; "": at least one can.
// Several regions may have the same name.
func (pl *placement) whyNoneTakes(t *typeTable, r *row, name string) string {
	why := "is not here"
	for i := range pl.live.regions {
		o := &pl.live.regions[i]
		if o.name != name {
			continue
		}
		if why = pl.whyNotTakes(t, r, o); why == "" {
			return ""
		}
	}
	return why
}

// whyNotTakes returns the reason why region o cannot take a shard now; "": it can.
func (pl *placement) whyNotTakes(t *typeTable, r *row, o *region) string {
	switch unfit := o.unfit(); {
	case unfit == AgainstUnreachable && !o.reachable:
		return "is unreachable; see roost cluster status"
	case unfit == AgainstUnreachable:
		return "has not registered yet; try again in a moment"
	case unfit == AgainstJoining:
		return "is not up yet; try again when roost cluster status shows it as up"
	case unfit == AgainstLeaving: // the region leaves by the membership, or has asked to leave
		return "is leaving; choose another region"
	case unfit == AgainstName:
		return fmt.Sprintf("is given no shards, because another one, at %s, has its name; give each a node.name of its own", o.heldUpBy.Addr)
	case !o.hosts(t.desc.Type):
		return fmt.Sprintf("does not host type %s; choose a region that does", t.desc.Type)
	case unfit == AgainstDraining:
		return fmt.Sprintf("is being drained; roost region drain %s --undo first", cmp.Or(o.name, o.node.Addr))
	case unfit == AgainstJournal:
		return "does not reach the journal, or has reached it again only recently; look at its log"
	// Invariant: an operator cannot move a shard to a region that does not read the shard.
	// Mutants: move-readable
	case !o.readable(t.desc.Type, r.stored()): //mutant:false move-readable
		var forms []string
		for i := range r.stored().All() {
			if !o.formsOf(t.desc.Type).reads.Has(i) {
				forms = append(forms, t.forms[i].String())
			}
		}
		return fmt.Sprintf("does not read what may be stored in it: %s; choose a region of a version that does, see roost rollout status", strings.Join(forms, "; "))
	}
	return ""
}

// MoveShard is an operator's request to move a shard to a region once. The shard need not stay there:
// the strategy may move it again.
type MoveShard struct {
	Shard      sharding.ShardID
	Region     string
	By, Reason string
}

// Origin returns who asks, and why.
func (in MoveShard) Origin() (by, reason string) { return in.By, in.Reason }

func (in MoveShard) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkOrigin(in); err != nil {
		return e, nil, err
	}
	t, r, err := m.table.findShard(in.Shard)
	if err != nil {
		return e, nil, err
	}
	to, err := m.live.findRegion(in.Region)
	if err != nil {
		return e, nil, err
	}
	e.Region = cmp.Or(to.name, to.node.Addr)
	if r.expectedOwner() == to.node {
		e.Already = true
		return e, nil, nil
	}
	if err := m.checkOperatorMove(t, r, to); err != nil {
		return e, nil, err
	}
	e.Changes = 1
	if m.intent.PinnedTo(in.Shard) == "" {
		e.Remarks = append(e.Remarks, "the strategy may move it on; roost shard pin keeps it there")
	}
	next := r.Row
	next.Phase = sharding.HandingOff
	f := r.fact(next)
	f.Successor, f.Cause = to.node, sharding.CauseMove
	return e, []Fact{f, MoveFact{Shard: in.Shard, Region: e.Region, Epoch: r.Epoch, Note: m.note(in.By, in.Reason)}}, nil
}

// checkOperatorMove returns an error if an operator cannot move a shard to a region now.
func (m *Machine) checkOperatorMove(t *typeTable, r *row, to *region) error {
	name, shard := cmp.Or(to.name, to.node.Addr), r.Shard
	owner := m.live.region(r.Owner)
	if why := m.whyNotTakes(t, r, to); why != "" {
		return refuse(NotNow, "%v cannot move to %s: the region %s", shard, name, why)
	}
	c, cordoned := m.intent.Cordon(to.name)
	switch pin := m.intent.PinnedTo(shard); {
	case !m.term.recovered:
		return refuse(NotNow, "the coordinator has just become active and waits for the regions; try again in %v", m.cfg.RecoveryWait)
	case m.intent.Frozen(m.now): //mutant:false freeze-moves
		return refuse(NotNow, "%s froze all moves of shards that can stay%s; roost placement freeze --undo first", who(m.intent.Freeze().By), because(m.intent.Freeze().Reason))
	case m.frozenByRollout():
		return refuse(NotNow, "a rollout is on, and voluntary moves wait for its end; see roost rollout status, or pin the shard to have it move afterwards")
	case r.Epoch == 0:
		return refuse(NotNow, "%v has never been used, so there is nothing to move; roost shard pin chooses the region where it begins", shard)
	case r.Phase != sharding.Serving || m.ledger.pending(r.number) || lost(t, owner) || owner.givesUpShards():
		return refuse(NotNow, "%v is about to move already; try again when roost shard ls --type %s shows it serving", shard, shard.Type)
	case cordoned:
		return refuse(NotNow, "%s has cordoned %s%s; roost region cordon %s --undo first", who(c.By), name, because(c.Reason), name)
	case pin != "" && pin != to.name:
		return refuse(NotNow, "%v is pinned to %s and would move back; roost shard pin %v --undo first, or pin it to %s instead", shard, pin, shard, name)
	case to.capacity > 0 && m.table.expectedShards[to.node] >= int(to.capacity):
		return refuse(NotNow, "%s has %d shards, and its region.capacity is %d; move another one off first", name, m.table.expectedShards[to.node], to.capacity)
	}
	return m.withinBudget(r, to)
}

// withinBudget returns an error if the budget does not allow an operator's move now.
func (tr *transit) withinBudget(r *row, to *region) error {
	b := &tr.budget
	switch tr.exceeds(r, to.node, sharding.CauseMove) {
	case budget.AtOnce:
		return refuse(NotNow, "%d shards are handed off now, which is the limit (allocation.max_handoffs); try again in a moment", b.Handoffs())
	case budget.FromRegion:
		return refuse(NotNow, "its region hands off %d shards now, which is the limit (allocation.max_handoffs_per_region); try again in a moment", b.From(r.Owner))
	case budget.ToRegion:
		return refuse(NotNow, "%d shards are on their way to %s now, which is the limit (allocation.max_handoffs_per_region); try again in a moment", b.To(to.node), cmp.Or(to.name, to.node.Addr))
	case budget.PerMinute:
		return refuse(NotNow, "%d shards have begun to move in the last minute, which is the limit (allocation.max_moves_per_minute); try again in a while", b.Begun(tr.now))
	case budget.ByBrake:
		return refuse(NotNow, "%s; try again in a while, see roost placement status", b.Brake(&tr.cfg.Config).Why())
	}
	return nil
}
