package bootstrap

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

type phase uint8

const (
	idle      phase = iota // not started
	searching              // looking for a cluster
	explicit               // told where to join
	finished               // a member
	gaveUp                 // the time was over
)

// Machine is the search of one node for its cluster. Make one with [New]; it
// is not safe for concurrent use.
type Machine struct {
	cfg     Config
	self    ContactPoint
	decider JoinDecider
	random  rand.PCG
	now     time.Time
	out     []Output // of the step that is running

	phase     phase
	startedAt time.Time

	contacts      []contact // sorted by address
	listed        bool      // the latest lookup succeeded
	lookupFailure string    // why the latest lookup failed, or ""
	changedAt     time.Time // of the last change of the list

	joinSeeds  []string // of the last JoinSeeds
	waitingFor string   // of the last Waiting
	warning    string   // of the last Warning
}

// contact is the state of one contact point.
type contact struct {
	addr      string       // as listed
	point     ContactPoint // addr, parsed
	forms     bool         // it may be one of the nodes that form a cluster
	nextQuery time.Time
	queriedAt time.Time // of the outstanding query; zero: none
	answer    Answer    // the last good one, if answerAt is set
	answerAt  time.Time // when the query was sent that answer answers
	problem   string    // of the latest query, if it got no good answer
	invalid   bool      // the latest query got an answer, but an invalid one
	foreign   bool      // the node that gave the invalid answer belongs to another cluster
}

// New is a node that has not started yet. The configuration must be valid.
func New(cfg Config) (*Machine, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	m := &Machine{cfg: cfg, decider: cfg.decider(), random: *rand.NewPCG(cfg.Seed, 0)}
	m.self, _ = ParseContactPoint(cfg.Self.Addr)
	return m, nil
}

// Step applies one input at time now, and appends to out what the driver must
// do, in that order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	if now.After(m.now) { // time never goes back
		m.now = now
	}
	m.out = out
	switch in := in.(type) {
	case Start:
		if m.phase == idle {
			m.phase, m.startedAt, m.lookupFailure = searching, m.now, "discovery has not answered yet"
		}
	case Discovered:
		m.discovered(in.Peers)
	case LookupFailed:
		m.lookupFailed(in.Reason)
	case Answered:
		m.answered(in.Addr, in.Answer)
	case QueryFailed:
		m.queryFailed(in.Addr, in.Reason)
	case Joined:
		m.joined()
	case ExplicitJoin:
		m.explicitJoin(in.Seeds)
	case Tick:
		m.query()
	}
	m.decide()
	out, m.out = m.out, nil
	return out
}

// discovered replaces the contact points by those that discovery lists. Nodes of
// roles that do not form clusters are queried too, but never waited for.
func (m *Machine) discovered(peers []Peer) {
	peers = OnPort(peers, m.cfg.Port)
	var found []contact
	for _, p := range peers {
		c := contact{addr: p.Addr, forms: p.Role == "" || p.Role == m.cfg.FormingRole, nextQuery: m.now}
		var ok bool
		if c.point, ok = ParseContactPoint(p.Addr); !ok {
			m.lookupFailed(fmt.Sprintf("discovery lists %.80q, which is not host:port", p.Addr))
			return
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b contact) int { // of equal addresses, one that forms comes first
		if a.forms != b.forms && a.addr == b.addr {
			return cmp.Compare(b.rank(), a.rank())
		}
		return cmp.Or(a.point.Compare(b.point), cmp.Compare(a.addr, b.addr))
	})
	found = slices.CompactFunc(found, func(a, b contact) bool { return a.addr == b.addr })
	found = limitOthers(found)
	if len(found) > m.cfg.MaxContacts {
		m.lookupFailed(fmt.Sprintf("discovery lists %d contact points, at most %d are allowed: list only those that form the cluster", len(found), m.cfg.MaxContacts))
		return
	}
	if !m.listed || !slices.Equal(formingAddrs(m.contacts), formingAddrs(found)) {
		m.changedAt = m.now
	}
	m.listed, m.lookupFailure = true, ""
	for i := range found {
		if old := m.contact(found[i].addr); old != nil {
			forms := found[i].forms
			found[i] = *old
			found[i].forms = forms
		}
	}
	m.contacts = found
}

// limitOthers keeps only the first few of the contact points that do not form a cluster.
// There may be very many, and one that knows of a cluster is enough.
func limitOthers(contacts []contact) []contact {
	others := 0
	return slices.DeleteFunc(contacts, func(c contact) bool {
		if !c.forms {
			others++
		}
		return !c.forms && others > maxSeeds
	})
}

// formingAddrs are the addresses of the contact points that form a cluster.
func formingAddrs(contacts []contact) (addrs []string) {
	for i := range contacts {
		if contacts[i].forms {
			addrs = append(addrs, contacts[i].addr)
		}
	}
	return addrs
}

func (c *contact) rank() int {
	if c.forms {
		return 1
	}
	return 0
}

// lookupFailed keeps the contact points, because one of them may be in a cluster.
// But no cluster is formed from a list that may be out of date, and the stable
// margin begins again.
func (m *Machine) lookupFailed(reason string) { m.listed, m.lookupFailure = false, reason }

func (m *Machine) contact(addr string) *contact {
	for i := range m.contacts {
		if m.contacts[i].addr == addr {
			return &m.contacts[i]
		}
	}
	return nil
}

// query queries the contact points that are due. A query without any result, not
// even a failure, is given up after twice its timeout.
func (m *Machine) query() {
	if m.phase != searching {
		return
	}
	for i := range m.contacts {
		c := &m.contacts[i]
		if !c.queriedAt.IsZero() && m.now.Sub(c.queriedAt) >= 2*m.cfg.QueryTimeout {
			c.queriedAt, c.problem = time.Time{}, "no answer in time"
		}
		if c.queriedAt.IsZero() && !m.now.Before(c.nextQuery) {
			c.queriedAt = m.now
			m.emit(Query{c.addr})
		}
	}
}

// answered accepts an answer if it is valid. Its age counts from the time of the
// query: an answer that a paused process reads late is not fresh.
func (m *Machine) answered(addr string, a Answer) {
	c := m.contact(addr)
	if c == nil || c.queriedAt.IsZero() || m.phase != searching {
		return
	}
	at := c.queriedAt
	//mutant:do question-time at = m.now
	m.queryDone(c)
	if _, ok := ParseContactPoint(a.SelfNode); !ok || a.SelfUID == 0 {
		c.problem, c.invalid = fmt.Sprintf("it does not say who it is (selfNode %.80q)", a.SelfNode), true
		return
	}
	if a.Cluster != m.cfg.Cluster {
		c.answerAt = time.Time{} // the node that answered before is gone
		c.problem, c.invalid, c.foreign = fmt.Sprintf("it belongs to cluster %.80q, not %q", a.Cluster, m.cfg.Cluster), true, true
		return
	}
	a.SelfRoles = slices.Clone(a.SelfRoles)
	a.SeedNodes = slices.Clone(a.SeedNodes[:min(len(a.SeedNodes), maxSeeds)])
	a.SeedNodes = slices.DeleteFunc(a.SeedNodes, func(s SeedNode) bool {
		_, ok := ParseContactPoint(s.Node)
		return !ok
	})
	c.answer, c.answerAt = a, at
}

func (m *Machine) queryFailed(addr, reason string) {
	if c := m.contact(addr); c != nil && !c.queriedAt.IsZero() {
		m.queryDone(c)
		c.problem = reason
	}
}

func (m *Machine) queryDone(c *contact) {
	c.queriedAt, c.problem, c.invalid, c.foreign = time.Time{}, "", false, false
	c.nextQuery = m.now.Add(m.cfg.queryDelay(rand.New(&m.random).Float64()))
}

func (m *Machine) joined() {
	if m.phase == finished || m.phase == idle {
		return
	}
	m.phase, m.waitingFor = finished, ""
	m.emit(Finished{})
}

func (m *Machine) explicitJoin(seeds []string) {
	if m.phase == finished || m.phase == gaveUp || len(seeds) == 0 {
		return
	}
	if m.phase == idle {
		m.startedAt = m.now
	}
	m.phase, m.joinSeeds = explicit, slices.Clone(seeds[:min(len(seeds), maxSeeds)])
	m.emit(JoinSeeds{slices.Clone(m.joinSeeds)})
	m.setWaiting("joins through " + strings.Join(m.joinSeeds, ", ") + ", as told")
}

// decide asks the decider and executes its decision. A veto prevents forming a
// cluster from contradictory information.
func (m *Machine) decide() {
	if m.phase != searching && m.phase != explicit {
		return
	}
	if m.phase == searching {
		d, veto := m.decider.Decide(m.Info()), m.veto()
		if d.Choice != JoinOtherSeedNodes && veto != "" {
			d = Decision{Why: "waits: " + veto}
		} else if d.Choice == KeepProbing {
			d.Why += m.silentContacts()
		}
		m.execute(d)
		m.warn()
	}
	if m.cfg.GiveUp > 0 && m.now.Sub(m.startedAt) >= m.cfg.GiveUp {
		m.phase = gaveUp
		m.emit(GaveUp{m.waitingFor})
	}
}

// silentContacts describes why contact points that are waited for do not answer, or give no good answer.
func (m *Machine) silentContacts() (text string) {
	for i := range m.contacts {
		if c := &m.contacts[i]; c.forms && c.problem != "" && !m.fresh(c) {
			text += fmt.Sprintf(" (%s: %s)", c.addr, c.problem)
		}
	}
	return text
}

func (m *Machine) execute(d Decision) {
	m.setWaiting(d.Why)
	switch d.Choice {
	case JoinOtherSeedNodes:
		if !slices.Equal(m.joinSeeds, d.Seeds) {
			m.joinSeeds = slices.Clone(d.Seeds)
			m.emit(JoinSeeds{d.Seeds})
		}
	case JoinSelf: // repeated until it has happened
		m.emit(FormCluster{})
	}
}

func (m *Machine) setWaiting(why string) {
	if why != m.waitingFor {
		m.waitingFor = why
		m.emit(Waiting{why})
	}
}

// Info is the input for a decision now.
func (m *Machine) Info() Info {
	info := Info{Self: m.self, Unchanged: m.now.Sub(m.changedAt)}
	for i := range m.contacts {
		c := &m.contacts[i]
		if !m.fresh(c) {
			if c.forms && !c.foreign {
				info.ContactPoints = append(info.ContactPoints, c.point)
			}
			continue
		}
		point, _ := ParseContactPoint(c.answer.SelfNode)
		forms := slices.Contains(c.answer.SelfRoles, m.cfg.FormingRole)
		if forms {
			info.ContactPoints = append(info.ContactPoints, point)
		}
		if forms || len(c.answer.SeedNodes) > 0 {
			o := Observation{Point: point}
			for _, s := range c.answer.SeedNodes {
				o.Seeds = append(o.Seeds, s.Node)
			}
			info.Observations = append(info.Observations, o)
		}
	}
	slices.SortFunc(info.ContactPoints, ContactPoint.Compare)
	info.ContactPoints = slices.Compact(info.ContactPoints)
	slices.SortStableFunc(info.Observations, func(a, b Observation) int { // of one node, the one with seeds comes first
		return cmp.Or(a.Point.Compare(b.Point), cmp.Compare(len(b.Seeds), len(a.Seeds)))
	})
	info.Observations = slices.CompactFunc(info.Observations, func(a, b Observation) bool { return a.Point == b.Point })
	return info
}

// fresh reports whether a contact point has a recent answer.
func (m *Machine) fresh(c *contact) bool {
	//mutant:true stale-observation m.now.Sub(c.answerAt) <= m.cfg.QueryTimeout
	return !c.answerAt.IsZero() && m.now.Sub(c.answerAt) <= m.cfg.QueryTimeout
}

// veto returns why no cluster may be formed, whatever the decider decides, or "".
func (m *Machine) veto() string {
	if !m.listed {
		return m.lookupFailure
	}
	if len(m.contacts) == 0 {
		return "discovery lists no contact point"
	}
	for i := range m.contacts {
		if c := &m.contacts[i]; m.fresh(c) && c.answer.InCluster && len(c.answer.SeedNodes) == 0 {
			return c.addr + " is in a cluster that no node can join any more, and has not left it yet"
		}
	}
	return m.conflict()
}

// conflict finds two processes that advertise the same address.
func (m *Machine) conflict() string {
	for i := range m.contacts {
		a := &m.contacts[i]
		if !m.fresh(a) {
			continue
		}
		if a.answer.SelfNode == m.cfg.Self.Addr && a.answer.SelfUID != int64(m.cfg.Self.UID) {
			return fmt.Sprintf("%s answers as %s, which is this node's own address; set node.advertise", a.addr, a.answer.SelfNode)
		}
		for j := range m.contacts[:i] {
			b := &m.contacts[j]
			if m.fresh(b) && b.answer.SelfNode == a.answer.SelfNode && b.answer.SelfUID != a.answer.SelfUID {
				return fmt.Sprintf("%s and %s are two processes that both call themselves %s; set node.advertise", b.addr, a.addr, a.answer.SelfNode)
			}
		}
	}
	return ""
}

// warn reports what is wrong with the contact points that do answer, whenever that changes.
func (m *Machine) warn() {
	var problems []string
	for i := range m.contacts {
		if c := &m.contacts[i]; c.invalid {
			problems = append(problems, c.addr+": "+c.problem)
		}
	}
	if why := m.conflict(); why != "" {
		problems = append(problems, why)
	}
	if text := strings.Join(problems, "; "); text != m.warning {
		m.warning = text
		if text != "" {
			m.emit(Warning{text})
		}
	}
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }
