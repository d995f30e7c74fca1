package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A request of an operator about placement is first given to [Machine.Ask], which computes the answer
// and changes nothing. Then the request is stepped, and takes effect. A dry run leaves out the step. If
// the effect of a request is there already, the request is not refused. So a client can repeat a
// request until its effect is stored.

// Request is an [Input] about placement. Only this package defines requests.
type Request interface {
	Input
	// effect returns the effect of the request, and the facts that carry the request out.
	effect(m *Machine) (Effect, []Fact, error)
	// Said returns two texts of the request: who asks, and why.
	Said() (by, reason string)
}

// Effect is what a request does, or would do.
type Effect struct {
	// Already says that the request changes nothing, because its effect is there already. Stored says
	// that this earlier effect is durable.
	Already, Stored bool
	// Region is the name of the region that the request is about, if it is about one.
	Region string
	// Changes is the number of facts that carry the request out.
	Changes int
	// Until is when the freeze of a [FreezeMoves] ends by itself; zero: it does not.
	Until time.Time
	// Remarks are sentences that the operator should read.
	Remarks []string
}

// Refusal is the error for a request that is refused. Text says why, and what the operator can do.
type Refusal struct {
	Kind RefusalKind
	Text string
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// RefusalKind says why a request is refused.
type RefusalKind uint8

// The kinds.
const (
	Malformed RefusalKind = iota // the request is never valid
	NotFound                     // the request names a region, a type or a shard that does not exist
	NotNow                       // the request is valid, but cannot be carried out now
)

func refuse(kind RefusalKind, format string, args ...any) error {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Ask returns what a request would do now. It changes nothing.
func (m *Machine) Ask(r Request) (Effect, error) {
	e, _, err := r.effect(m)
	return e, err
}

// request carries a request out.
func (m *Machine) request(r Request) {
	e, facts, err := r.effect(m)
	if err != nil || e.Already {
		return
	}
	for _, f := range facts {
		if row, ok := f.(RowFact); ok { // the request is a MoveShard
			t, at := m.find(row.Row.Shard)
			m.handOff(t, at, row.Successor, row.Cause)
			continue
		}
		m.decideRequest(f)
		m.commit(f)
	}
}

// checkSaid checks that the texts that Said returns are well-formed.
func (m *Machine) checkSaid(r Request) error {
	by, reason := r.Said()
	for _, t := range [][2]string{{"by", by}, {"reason", reason}} {
		if t[1] == "" {
			continue
		}
		if err := sharding.CheckText(t[0], t[1], m.cfg.MaxReason); err != nil {
			return refuse(Malformed, "%v", err)
		}
	}
	return nil
}

// called returns the regions that have the given name or address.
func (m *Machine) called(name string) (list []*region) {
	for i := range m.regions {
		if r := &m.regions[i]; name != "" && (r.name == name || r.node.Addr == name || r.node.String() == name) {
			list = append(list, r)
		}
	}
	return list
}

// regionName returns the name of a present region. An operator has given its name or its address. If
// no present region matches and other is set, the given text is returned as a name.
func (m *Machine) regionName(given string, other bool) (string, error) {
	if err := sharding.CheckText("region", given, sharding.MaxTypeLen); err != nil {
		return "", refuse(Malformed, "%v", err)
	}
	list := m.called(given)
	switch {
	case len(list) > 0 && list[0].name != "":
		return list[0].name, nil
	case len(list) > 0:
		return "", refuse(NotNow, "the region at %s has no name; give it one by node.name", given)
	case other:
		return given, nil
	}
	var here []string
	for i := range m.regions {
		here = append(here, cmp.Or(m.regions[i].name, m.regions[i].node.Addr))
	}
	slices.Sort(here)
	text := "none is here"
	if len(here) > 0 {
		text = "here are " + strings.Join(slices.Compact(here), ", ")
	}
	return "", refuse(NotFound, "no region is called %s; %s. To name a region that is not here yet, add --ahead", given, text)
}

// CordonRegion is an operator's request to cordon the regions with the name Region: they get no more
// shards. If Lift is set, the request ends the cordon. Ahead allows a name that no region has now.
type CordonRegion struct {
	Region      string
	Lift, Ahead bool
	By, Reason  string
}

// Said returns who asks, and why.
func (in CordonRegion) Said() (by, reason string) { return in.By, in.Reason }

func (in CordonRegion) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkSaid(in); err != nil {
		return e, nil, err
	}
	_, found := m.steering.searchCordon(in.Region)
	if e.Region, err = m.regionName(in.Region, in.Ahead || found || in.Lift); err != nil {
		return e, nil, err
	}
	i, found := m.steering.searchCordon(e.Region)
	if in.Lift {
		e.Already = !found
	} else if found {
		c := m.steering.cordons[i]
		if e.Already = in.Reason == "" || c.By == in.By && c.Reason == in.Reason; e.Already && c.By != in.By {
			e.Remarks = append(e.Remarks, fmt.Sprintf("%s wanted it already%s", who(c.By), because(c.Reason)))
		}
	} else if len(m.steering.cordons) >= m.cfg.MaxCordons {
		return e, nil, refuse(NotNow, "%d names are cordoned, more are not allowed; roost uncordon those whose regions do not come back, see roost steering", len(m.steering.cordons))
	}
	e.Stored = e.Already && !m.pending(m.steering.number)
	if !in.Lift {
		e.Remarks = append(e.Remarks, m.aboutCordon(e.Region)...)
	}
	if e.Already {
		return e, nil, nil
	}
	e.Changes = 1
	f := CordonFact{Region: e.Region, Lifted: in.Lift, Note: m.note(in.By, in.Reason), After: sharding.MakeEpoch(m.term, m.counter)}
	if found { // shards given to the region after the first cordon are still counted (CordonView.Since)
		f.After = m.steering.cordons[i].After
	}
	return e, []Fact{f}, nil
}

// aboutCordon returns remarks for an operator who expects more from a cordon than it does.
func (m *Machine) aboutCordon(name string) (remarks []string) {
	regions, shards := 0, 0
	for i := range m.regions {
		if r := &m.regions[i]; r.name == name {
			regions, shards = regions+1, shards+m.shardsOf(r.node)
		}
	}
	switch {
	case regions == 0:
		remarks = append(remarks, "no region has this name now; one that comes with it is cordoned")
	case shards > 0:
		remarks = append(remarks, fmt.Sprintf("it keeps the shards that it has (%d); roost drain %s moves them off", shards, name))
	}
	if regions > 1 {
		remarks = append(remarks, fmt.Sprintf("%d regions have this name, and all of them are cordoned; give each a node.name of its own", regions))
	}
	for _, t := range m.types {
		hosts, others := false, false
		for i := range m.regions {
			r := &m.regions[i]
			if !r.hosts(t.desc.Type) || !r.candidate() {
				continue
			}
			if r.name == name {
				hosts = true
			} else {
				others = others || !m.cordoned(r.name)
			}
		}
		if hosts && !others {
			remarks = append(remarks, fmt.Sprintf("it still gets shards of type %s: no other region can take them", t.desc.Type))
		}
	}
	return remarks
}

// FreezeMoves is an operator's request to stop voluntary moves. If Thaw is set, the request ends the
// freeze. The freeze ends by itself at Until, or after For. If both are zero, the freeze does not end
// by itself. If a client repeats a request that had For, it must send the Until of the first answer
// instead. Otherwise each repeat would ask for a later end.
type FreezeMoves struct {
	Thaw       bool
	For        time.Duration
	Until      time.Time
	By, Reason string
}

// Said returns who asks, and why.
func (in FreezeMoves) Said() (by, reason string) { return in.By, in.Reason }

func (in FreezeMoves) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkSaid(in); err != nil {
		return e, nil, err
	}
	until := in.Until
	if in.For > 0 {
		until = m.now.Add(in.For)
	}
	if !until.IsZero() {
		until = factTime(until)
	}
	switch {
	case in.For < 0 || in.For > 0 && !in.Until.IsZero():
		return e, nil, refuse(Malformed, "a freeze ends after a time above 0, or at a moment, not both")
	case in.Thaw && !until.IsZero():
		return e, nil, refuse(Malformed, "a thaw has no end; freeze again when you want to")
	case !until.IsZero() && !until.After(m.now):
		return e, nil, refuse(Malformed, "the freeze would end at %s, which is in the past; give a later time", until.Format(time.RFC3339))
	}
	now := m.steering.freeze
	switch {
	case in.Thaw:
		e.Already = !now.Frozen
	case now.Frozen:
		e.Already = now.Until.Equal(until) && (in.Reason == "" || now.By == in.By && now.Reason == in.Reason)
		if now.By != in.By {
			e.Remarks = append(e.Remarks, fmt.Sprintf("%s froze it already%s", who(now.By), because(now.Reason)))
		}
	}
	e.Until = until
	e.Stored = e.Already && !m.pending(m.steering.number)
	if !in.Thaw {
		e.Remarks = append(e.Remarks, "drains, regions that leave and lost owners still move shards; pins wait for the thaw")
	}
	if e.Already {
		return e, nil, nil
	}
	e.Changes = 1
	return e, []Fact{FreezeFact{Frozen: !in.Thaw, Until: until, Note: m.note(in.By, in.Reason)}}, nil
}

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

// Said returns who asks, and why.
func (in PinShards) Said() (by, reason string) { return in.By, in.Reason }

func (in PinShards) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkSaid(in); err != nil {
		return e, nil, err
	}
	if n := len(in.Pins); n == 0 || n > m.cfg.MaxPins {
		return e, nil, refuse(Malformed, "a request has 1 to %d shards, this one has %d; split it", m.cfg.MaxPins, n)
	}
	asked := make(map[sharding.ShardID]bool, len(in.Pins))
	names := map[string]string{} // names of regions, by the text that was given
	move, cannot := 0, map[string]bool{}
	for _, p := range in.Pins {
		t, r, err := m.findShard(p.Shard)
		if err != nil {
			return e, nil, err
		}
		if asked[p.Shard] {
			return e, nil, refuse(Malformed, "%v is there twice; pin it to one region", p.Shard)
		}
		asked[p.Shard] = true
		name, known := names[p.Region]
		if !known && p.Region != "" {
			if name, err = m.regionName(p.Region, in.Ahead); err != nil {
				return e, nil, err
			}
			names[p.Region] = name
		}
		e.Region = name
		i, found := t.searchPin(p.Shard.Index)
		if found && name != "" && t.pins[i].Region == name && (in.Reason == "" || t.pins[i].By == in.By && t.pins[i].Reason == in.Reason) || !found && name == "" {
			continue
		}
		facts = append(facts, PinFact{Shard: p.Shard, Region: name, Note: m.note(in.By, in.Reason)})
		if name == "" {
			continue
		}
		if why := m.unfit(t, r, name); why != "" {
			cannot[name+" "+why] = true
		} else if owner := m.region(r.Owner); r.Epoch != 0 && (owner == nil || owner.name != name) {
			move++
		}
	}
	e.Changes, e.Already = len(facts), len(facts) == 0
	e.Stored = e.Already && !m.pending(m.steering.number)
	if len(names) > 1 {
		e.Region = ""
	}
	if move > 0 {
		text := fmt.Sprintf("shards that move there as soon as that is possible: %d", move)
		if m.halted() {
			text = fmt.Sprintf("shards that move there when the freeze has ended, see roost thaw: %d", move)
		}
		e.Remarks = append(e.Remarks, text)
	}
	for why := range cannot { // sorted below
		e.Remarks = append(e.Remarks, why+"; until it can take the shard, another region has the shard")
	}
	slices.Sort(e.Remarks)
	return e, facts, nil
}

// findType returns the entity type that a request names.
func (m *Machine) findType(typ sharding.EntityType) (*typeTable, error) {
	i, found := m.searchType(typ)
	if found {
		return m.types[i], nil
	}
	var known []string
	for _, t := range m.types {
		known = append(known, string(t.desc.Type))
	}
	if known == nil {
		return nil, refuse(NotFound, "no entity type %s: no region has registered one yet", typ)
	}
	return nil, refuse(NotFound, "no entity type %s; declared are %s", typ, strings.Join(known, ", "))
}

// findShard returns the shard that a request names.
func (m *Machine) findShard(s sharding.ShardID) (*typeTable, *row, error) {
	t, err := m.findType(s.Type)
	if err != nil {
		return nil, nil, err
	}
	if int64(s.Index) >= int64(len(t.rows)) {
		return nil, nil, refuse(NotFound, "type %s has %d shards, 0 to %d; roost where finds the shard of an entity", s.Type, len(t.rows), len(t.rows)-1)
	}
	return t, &t.rows[s.Index], nil
}

// unfit says why no region with the given name can get the shard now; "": at least one can.
func (m *Machine) unfit(t *typeTable, r *row, name string) string {
	why := "is not here"
	for i := range m.regions {
		o := &m.regions[i]
		if o.name != name {
			continue
		}
		if why = m.unable(t, r, o); why == "" {
			return ""
		}
	}
	return why
}

// unable says why region o cannot get a shard now; "": it can.
func (m *Machine) unable(t *typeTable, r *row, o *region) string {
	switch {
	case !o.reachable:
		return "is unreachable; see roost members"
	case !o.registered:
		return "has not registered yet; try again in a moment"
	case o.joining:
		return "is not up yet; try again when roost members says that it is"
	case o.going || o.leaving: // the membership says that the region leaves, or the region has asked to leave
		return "is leaving; choose another region"
	case !o.hosts(t.desc.Type):
		return fmt.Sprintf("does not host type %s; choose a region that does", t.desc.Type)
	case o.draining:
		return fmt.Sprintf("is being drained; roost drain %s --resume first", cmp.Or(o.name, o.node.Addr))
	case o.cutOff() || o.recovering():
		return "does not reach the journal, or has reached it again only recently; look at its log"
	case !o.readable(t, r.stored()) && !mutant.On("move-readable"):
		var forms []string
		for i := range r.stored().All() {
			if !o.formsOf(t).reads.Has(i) {
				forms = append(forms, t.forms[i].String())
			}
		}
		return fmt.Sprintf("does not read what may be stored in it: %s; choose a region of a version that does, see roost rollout", strings.Join(forms, "; "))
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

// Said returns who asks, and why.
func (in MoveShard) Said() (by, reason string) { return in.By, in.Reason }

func (in MoveShard) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkSaid(in); err != nil {
		return e, nil, err
	}
	t, r, err := m.findShard(in.Shard)
	if err != nil {
		return e, nil, err
	}
	to, err := m.findRegion(in.Region)
	if err != nil {
		return e, nil, err
	}
	e.Region = cmp.Or(to.name, to.node.Addr)
	if r.expected() == to.node {
		e.Already, e.Stored = true, !m.pending(r.number)
		return e, nil, nil
	}
	if err := m.mayMove(t, r, to); err != nil {
		return e, nil, err
	}
	e.Changes = 1
	if t.pin(in.Shard) == "" {
		e.Remarks = append(e.Remarks, "the strategy may move it on; roost pin keeps it there")
	}
	next := r.Row
	next.Phase = sharding.HandingOff
	f := r.fact(next)
	f.Successor, f.Cause = to.node, sharding.CauseMove
	return e, []Fact{f, MoveFact{Shard: in.Shard, Region: e.Region, Epoch: r.Epoch, Note: m.note(in.By, in.Reason)}}, nil
}

// mayMove returns an error if an operator cannot move a shard to a region now.
func (m *Machine) mayMove(t *typeTable, r *row, to *region) error {
	name, shard := cmp.Or(to.name, to.node.Addr), r.Shard
	owner := m.region(r.Owner)
	if why := m.unable(t, r, to); why != "" {
		return refuse(NotNow, "%v cannot move to %s: the region %s", shard, name, why)
	}
	c, cordoned := m.steering.searchCordon(to.name)
	switch pin := t.pin(shard); {
	case !m.recovered:
		return refuse(NotNow, "the coordinator has just become active and waits for the regions; try again in %v", m.cfg.RecoveryWait)
	case m.halted() && !mutant.On("freeze-moves"):
		return refuse(NotNow, "%s froze all moves of shards that can stay%s; roost thaw first", who(m.steering.freeze.By), because(m.steering.freeze.Reason))
	case m.frozen():
		return refuse(NotNow, "a rollout is on, and voluntary moves wait for its end; see roost rollout, or pin the shard to have it move afterwards")
	case r.Epoch == 0:
		return refuse(NotNow, "%v has never been used, so there is nothing to move; roost pin says where it begins", shard)
	case r.Phase != sharding.Serving || m.pending(r.number) || lost(t, owner) || owner.leaves():
		return refuse(NotNow, "%v is about to move already; try again when roost shards --type %s shows it serving", shard, shard.Type)
	case cordoned:
		return refuse(NotNow, "%s has cordoned %s%s; roost uncordon %s first", who(m.steering.cordons[c].By), name, because(m.steering.cordons[c].Reason), name)
	case pin != "" && pin != to.name:
		return refuse(NotNow, "%v is pinned to %s and would move back; roost unpin %v first, or pin it to %s instead", shard, pin, shard, name)
	case to.capacity > 0 && m.expected[to.node] >= int(to.capacity):
		return refuse(NotNow, "%s has %d shards, and its region.capacity is %d; move another one off first", name, m.expected[to.node], to.capacity)
	}
	return m.withinBudget(r, to)
}

// withinBudget returns an error if the budget does not allow an operator's move now.
func (m *Machine) withinBudget(r *row, to *region) error {
	b, cfg := &m.budget, &m.cfg
	switch m.exceeds(r, to.node, sharding.CauseMove) {
	case limitAtOnce:
		return refuse(NotNow, "%d shards are handed off now, which is the limit (allocation.max_handoffs); try again in a moment", b.handoffs)
	case limitFrom:
		return refuse(NotNow, "its region hands off %d shards now, which is the limit (allocation.max_handoffs_per_region); try again in a moment", b.from[r.Owner])
	case limitTo:
		return refuse(NotNow, "%d shards are on their way to %s now, which is the limit (allocation.max_handoffs_per_region); try again in a moment", b.to[to.node], cmp.Or(to.name, to.node.Addr))
	case limitPerMinute:
		return refuse(NotNow, "%d shards have begun to move in the last minute, which is the limit (allocation.max_moves_per_minute); try again in a while", len(b.lastMinute(m.now)))
	case limitBrake:
		return refuse(NotNow, "%s; try again in a while, see roost steering", b.brake.view(cfg).Why())
	}
	return nil
}

func who(by string) string { return cmp.Or(by, "an operator") }

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
