package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

// A request of an operator about placement is given to [Machine.Step] as an input, and takes effect. If the operator
// waits, it comes as an [Ask]. [Machine.Preview] computes the effect and changes nothing, for a dry run. If the effect of
// a request is there already, the request is not refused. So a client can repeat a request that was not answered.
//
// This file has what all requests have in common, and those about regions, versions and all moves.
// Those about single shards are in request_shards.go.

// Request is an [Input] about placement. Only this package defines requests.
type Request interface {
	Input
	// effect returns the effect of the request, and the facts that carry the request out.
	effect(m *Machine) (Effect, []Fact, error)
	// Origin returns two texts of the request: who asks, and why.
	Origin() (by, reason string)
}

// Effect describes what a request does, or would do.
type Effect struct {
	// Already is true if the request changes nothing, because its effect is there already.
	Already bool
	// Region is the name of the region that the request is about, if it is about one.
	Region string
	// Changes is the number of facts that carry the request out.
	Changes int
	// Until is the time when the freeze of a [FreezeMoves] ends automatically; zero: it does not.
	Until time.Time
	// Node is the process that a [DrainRegion] is about. A repeat must name it: another process with the same
	// name may have come.
	Node sharding.NodeID
	// Remaining is the number of shards that the region has, or that are on their way to it. Stays
	// lists the shards that must stay there, because no other region can take them now.
	Remaining int
	Stays     []UnreadableShards
	// Before is the target before a [SetTarget].
	Before string
	// Remarks are sentences that the operator should read.
	Remarks []string
}

// Refusal is the error for a request that is refused. Text gives the reason, and what the operator can do.
type Refusal struct {
	Kind RefusalKind
	Text string
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// RefusalKind is the kind of reason for refusing a request.
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

// Preview returns what a request would do now. It changes nothing.
func (m *Machine) Preview(r Request) (Effect, error) {
	e, _, err := r.effect(m)
	return e, err
}

// unobeyed is an [Ask] that is done when the regions that may run an entity know that it is quarantined.
type unobeyed struct {
	number uint64
	entity sharding.Entity
}

// ask carries out a request of an operator who waits. Done is an output after the facts that the effect depends on, so
// it leaves when they are durable.
func (m *Machine) ask(in Ask) {
	e, err := m.request(in.Request)
	m.emit(Asked{Number: in.Number, Effect: e, Err: err})
	if err != nil {
		return
	}
	if q, is := in.Request.(QuarantineEntity); is && !q.Release {
		m.unobeyed = append(m.unobeyed, unobeyed{in.Number, q.Entity})
		return
	}
	m.emit(Done{Number: in.Number})
}

// askEnded forgets an Ask.
func (m *Machine) askEnded(in AskEnded) {
	m.unobeyed = slices.DeleteFunc(m.unobeyed, func(w unobeyed) bool { return w.number == in.Number })
}

// answerObeyed ends the Asks for quarantines that all regions know of by now.
func (m *Machine) answerObeyed() {
	m.unobeyed = slices.DeleteFunc(m.unobeyed, func(w unobeyed) bool {
		t, _ := m.table.rowOf(w.entity)
		obeyed := t == nil || m.obeyed(t, w.entity)
		if obeyed {
			m.emit(Done{Number: w.number})
		}
		return obeyed
	})
}

// request carries out a request of an operator, and returns its effect.
func (m *Machine) request(r Request) (Effect, error) {
	e, facts, err := r.effect(m)
	if err != nil || e.Already {
		return e, err
	}
	for _, f := range facts { // an operator reads the request before its consequences
		switch f.(type) {
		case RowFact, TargetFact:
		default:
			m.why.explainRequest(&m.placement, f)
		}
	}
	for i, f := range facts {
		if row, ok := f.(RowFact); ok { // the request is a MoveShard
			t, at := m.table.find(row.Row.Shard)
			m.handOff(t, at, row.Successor, row.Cause)
			continue
		}
		if target, ok := f.(TargetFact); ok {
			by, _ := r.Origin()
			m.changeTarget(target, "asked for by "+who(by))
			continue
		}
		if i == 0 {
			m.commit(f)
		} else {
			m.commitJoined(f)
		}
		if _, ok := f.(DrainFact); ok {
			m.review.due = true
		}
	}
	return e, nil
}

// checkOrigin checks that the texts that Origin returns are well-formed.
func (pl *placement) checkOrigin(r Request) error {
	by, reason := r.Origin()
	for _, t := range [][2]string{{"by", by}, {"reason", reason}} {
		if t[1] == "" {
			continue
		}
		if err := sharding.CheckText(t[0], t[1], pl.cfg.MaxReason); err != nil {
			return refuse(Malformed, "%v", err)
		}
	}
	return nil
}

// CordonRegion is an operator's request to cordon the regions with the name Region: they get no more
// shards. If Lift is set, the request ends the cordon. Ahead allows a name that no region has now.
type CordonRegion struct {
	Region      string
	Lift, Ahead bool
	By, Reason  string
}

// Origin returns who asks, and why.
func (in CordonRegion) Origin() (by, reason string) { return in.By, in.Reason }

func (in CordonRegion) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkOrigin(in); err != nil {
		return e, nil, err
	}
	_, found := m.intent.Cordon(in.Region)
	if e.Region, err = m.live.regionName(in.Region, in.Ahead || found || in.Lift); err != nil {
		return e, nil, err
	}
	c, found := m.intent.Cordon(e.Region)
	if in.Lift {
		e.Already = !found
		if slices.ContainsFunc(m.live.regions, func(r region) bool { return r.name == e.Region && r.draining }) {
			e.Remarks = append(e.Remarks, fmt.Sprintf("it is drained, so it gets no shards; roost region drain %s --undo ends that", e.Region))
		}
	} else if found {
		if e.Already = in.Reason == "" || c.By == in.By && c.Reason == in.Reason; e.Already && c.By != in.By {
			e.Remarks = append(e.Remarks, fmt.Sprintf("%s wanted it already%s", who(c.By), because(c.Reason)))
		}
	} else if n := m.intent.Len(intent.Cordons); n >= m.cfg.MaxCordons {
		return e, nil, refuse(NotNow, "%d names are cordoned, more are not allowed; roost region cordon --undo those whose regions do not come back, see roost placement status", n)
	}
	if !in.Lift {
		e.Remarks = append(e.Remarks, m.aboutCordon(e.Region)...)
	}
	if e.Already {
		return e, nil, nil
	}
	e.Changes = 1
	f := CordonFact{Region: e.Region, Lifted: in.Lift, Note: m.note(in.By, in.Reason), After: sharding.MakeEpoch(m.term.number, m.term.counter)}
	if found {
		// The request renews a cordon. Field After is still the last epoch before the first cordon, so that
		// CordonView.Since counts all shards that the region has got since the first cordon.
		f.After = c.After
	}
	return e, []Fact{f}, nil
}

// aboutCordon returns remarks for an operator who expects more from a cordon than it does.
func (pl *placement) aboutCordon(name string) (remarks []string) {
	regions, shards := 0, 0
	for i := range pl.live.regions {
		if r := &pl.live.regions[i]; r.name == name {
			regions, shards = regions+1, shards+pl.table.shardsOf(r.node)
		}
	}
	switch {
	case regions == 0:
		remarks = append(remarks, "no region has this name now; one that comes with it is cordoned")
	case shards > 0:
		remarks = append(remarks, fmt.Sprintf("it keeps the shards that it has (%d); roost region drain %s moves them off", shards, name))
	}
	if regions > 1 {
		remarks = append(remarks, fmt.Sprintf("%d regions have this name, and all of them are cordoned; give each a node.name of its own", regions))
	}
	for _, t := range pl.table.types {
		hosts, others := false, false
		for i := range pl.live.regions {
			r := &pl.live.regions[i]
			if !r.hosts(t.desc.Type) || !r.candidate() {
				continue
			}
			if r.name == name {
				hosts = true
			} else {
				others = others || !pl.intent.Cordoned(r.name)
			}
		}
		if hosts && !others {
			remarks = append(remarks, fmt.Sprintf("it still gets shards of type %s: no other region can take them", t.desc.Type))
		}
	}
	return remarks
}

// DrainRegion is an operator's request to drain a region: to hand off all its shards, although the region
// does not leave. If Resume is set, the request ends the drain. Region is a name, an address, or an
// address with the uid.
type DrainRegion struct {
	Region     string
	Resume     bool
	By, Reason string
}

// Origin returns who asks, and why.
func (in DrainRegion) Origin() (by, reason string) { return in.By, in.Reason }

func (in DrainRegion) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkOrigin(in); err != nil {
		return e, nil, err
	}
	r, err := m.live.findRegion(in.Region)
	if err != nil {
		return e, nil, err
	}
	e.Region, e.Node, e.Remaining, e.Stays = cmp.Or(r.name, r.node.Addr), r.node, m.table.involving(r.node), m.staying(r)
	d, found := m.intent.Drain(r.node)
	e.Already = found != in.Resume // the region is in the requested state already
	if found && !in.Resume && in.Reason != "" {
		e.Already = d.By == in.By && d.Reason == in.Reason
	}
	if e.Already {
		return e, nil, nil
	}
	e.Changes = 1
	return e, []Fact{DrainFact{Region: r.node, Resume: in.Resume, Note: m.note(in.By, in.Reason)}}, nil
}

// SetTarget is an operator's request to make a version of the application the target of rollouts,
// see TargetFact. A version that no region has or had is refused. Such a version needs no request: when
// the first region with it registers, the version becomes the target.
type SetTarget struct{ Version, By string }

// Origin returns who asks. A target has no reason.
func (in SetTarget) Origin() (by, reason string) { return in.By, "" }

func (in SetTarget) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkOrigin(in); err != nil {
		return e, nil, err
	}
	if err := sharding.CheckText("version", in.Version, sharding.MaxTypeLen); err != nil {
		return e, nil, refuse(Malformed, "%v", err)
	}
	e.Before = m.intent.Target().Version
	if in.Version == m.intent.Target().Version {
		e.Already = true
		return e, nil, nil
	}
	known := append(slices.Clone(m.intent.Target().Seen), m.intent.Target().Version)
	for i := range m.live.regions {
		known = append(known, m.live.regions[i].version)
	}
	// Invariant: only a version that a region has, or had, becomes the target.
	// Guarded by: `SetTarget.effect` of `services/coordinator`.
	// Mutants: target-known
	if !slices.Contains(known, in.Version) { //mutant:false target-known
		slices.Sort(known)
		known = slices.DeleteFunc(slices.Compact(known), func(v string) bool { return v == "" })
		return e, nil, refuse(NotFound, "no region has or had version %q; known are %q. A new version becomes the target when the first region with it registers", in.Version, known)
	}
	e.Changes = 1
	return e, []Fact{m.nextTargetFact(in.Version)}, nil
}

// MaxFreeze is the longest freeze that ends automatically. An operator who asks for more has made a mistake in the
// unit.
const MaxFreeze = 10 * 365 * 24 * time.Hour

// FreezeMoves is an operator's request to stop voluntary moves. If Thaw is set, the request ends the freeze. The
// freeze ends automatically at Until, or after For, at most MaxFreeze from now. If both are zero, the freeze lasts
// until an operator ends it. If a client repeats a request that had For, it must send the Until of the first answer
// instead. Otherwise each repeat would ask for a later end.
type FreezeMoves struct {
	Thaw       bool
	For        time.Duration
	Until      time.Time
	By, Reason string
}

// Origin returns who asks, and why.
func (in FreezeMoves) Origin() (by, reason string) { return in.By, in.Reason }

func (in FreezeMoves) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkOrigin(in); err != nil {
		return e, nil, err
	}
	until := in.Until
	if in.For > MaxFreeze || until.Sub(m.now) > MaxFreeze {
		return e, nil, refuse(Malformed, "a freeze with an end lasts %d days at most; leave the end out to freeze until you thaw", int(MaxFreeze.Hours()/24))
	}
	if in.For > 0 {
		until = m.now.Add(in.For)
	}
	if !until.IsZero() {
		until = fact.Time(until)
	}
	switch {
	case in.For < 0 || in.For > 0 && !in.Until.IsZero():
		return e, nil, refuse(Malformed, "a freeze ends after a time above 0, or at a moment, not both")
	case in.Thaw && !until.IsZero():
		return e, nil, refuse(Malformed, "a thaw has no end; freeze again when you want to")
	case !until.IsZero() && !until.After(m.now):
		return e, nil, refuse(Malformed, "the freeze would end at %s, which is in the past; give a later time", until.Format(time.RFC3339))
	}
	current := m.intent.Freeze()
	switch {
	case in.Thaw:
		e.Already = !current.Frozen
	case current.Frozen:
		e.Already = current.Until.Equal(until) && (in.Reason == "" || current.By == in.By && current.Reason == in.Reason)
		if current.By != in.By {
			e.Remarks = append(e.Remarks, fmt.Sprintf("%s froze it already%s", who(current.By), because(current.Reason)))
		}
		if !until.IsZero() && (current.Until.IsZero() || until.Before(current.Until)) {
			end := "roost placement freeze --undo"
			if !current.Until.IsZero() {
				end = current.Until.Format(time.RFC3339)
			}
			e.Remarks = append(e.Remarks, fmt.Sprintf("that freeze would have lasted until %s; it ends at %s now", end, until.Format(time.RFC3339)))
		}
	}
	e.Until = until
	if !in.Thaw {
		e.Remarks = append(e.Remarks, "drains, regions that leave and lost owners still move shards; pins wait for the thaw")
	}
	if e.Already {
		return e, nil, nil
	}
	e.Changes = 1
	return e, []Fact{FreezeFact{Frozen: !in.Thaw, Until: until, Note: m.note(in.By, in.Reason)}}, nil
}

func who(by string) string { return cmp.Or(by, "an operator") }

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
