package bootstrap

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

type phase uint8

const (
	idle     phase = iota // not started
	probing               // looking for a cluster
	explicit              // told where to join
	finished              // a member
	gaveUp                // the time was over
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

	phase phase
	began time.Time

	contacts  []contact // sorted by address
	listed    bool      // the latest lookup succeeded
	lookup    string    // why it did not
	changedAt time.Time // when the list became what it is

	joining []string // told with JoinSeeds last
	why     string   // told with Waiting last
	warned  string   // told with Warning last
}

// contact is what is known about one contact point.
type contact struct {
	addr    string       // as listed
	point   ContactPoint // of it
	counts  bool         // it may be one of those that form a cluster
	next    time.Time    // of the next question
	asked   time.Time    // since when an answer is awaited; zero: none is
	answer  Answer       // the last good one, if at is set
	at      time.Time    // of its question
	problem string       // of the latest question, if it got no good answer
	wrong   bool         // it did answer, but what makes no sense here
	foreign bool         // as it belongs to another cluster
}

// New is a node that has not started yet. The configuration must be valid.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg, decider: cfg.decider(), random: *rand.NewPCG(cfg.Seed, 0)}
	m.self, _ = ParseContactPoint(cfg.Self.Addr)
	return m
}

// Step applies in at now and appends to out what the driver must do, in that
// order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	if now.After(m.now) { // time never goes back
		m.now = now
	}
	m.out = out
	switch in := in.(type) {
	case Start:
		if m.phase == idle {
			m.phase, m.began, m.lookup = probing, m.now, "discovery has not answered yet"
		}
	case Discovered:
		m.discovered(in.Peers)
	case LookupFailed:
		m.lookupFailed(in.Reason)
	case Answered:
		m.answered(in.Addr, in.Answer)
	case ProbeFailed:
		m.probeFailed(in.Addr, in.Reason)
	case Joined:
		m.joined()
	case ExplicitJoin:
		m.explicitJoin(in.Seeds)
	case Tick:
		m.probe()
	}
	m.decide()
	out, m.out = m.out, nil
	return out
}

// discovered takes over what discovery lists. Roles other than the one that
// forms clusters are asked too, but never waited for.
func (m *Machine) discovered(peers []Peer) {
	peers = OnPort(peers, m.cfg.Port)
	var found []contact
	for _, p := range peers {
		c := contact{addr: p.Addr, counts: p.Role == "" || p.Role == m.cfg.Former, next: m.now}
		var ok bool
		if c.point, ok = ParseContactPoint(p.Addr); !ok {
			m.lookupFailed(fmt.Sprintf("discovery lists %.80q, which is no host:port", p.Addr))
			return
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b contact) int { // of one address, the one that counts comes first
		if a.counts != b.counts && a.addr == b.addr {
			return cmp.Compare(b.rank(), a.rank())
		}
		return cmp.Or(a.point.Compare(b.point), cmp.Compare(a.addr, b.addr))
	})
	found = slices.CompactFunc(found, func(a, b contact) bool { return a.addr == b.addr })
	found = fewOthers(found)
	if len(found) > m.cfg.MaxContacts {
		m.lookupFailed(fmt.Sprintf("discovery lists %d contact points, at most %d are allowed: list only those that form the cluster", len(found), m.cfg.MaxContacts))
		return
	}
	if !m.listed || !slices.Equal(counting(m.contacts), counting(found)) {
		m.changedAt = m.now
	}
	m.listed, m.lookup = true, ""
	for i := range found {
		if old := m.contact(found[i].addr); old != nil {
			counts := found[i].counts
			found[i] = *old
			found[i].counts = counts
		}
	}
	m.contacts = found
}

// fewOthers keeps of those that do not count only the first: one that knows of a
// cluster is enough, and there may be very many.
func fewOthers(contacts []contact) []contact {
	others := 0
	return slices.DeleteFunc(contacts, func(c contact) bool {
		if !c.counts {
			others++
		}
		return !c.counts && others > maxSeeds
	})
}

// counting are the addresses of those that count.
func counting(contacts []contact) (addrs []string) {
	for i := range contacts {
		if contacts[i].counts {
			addrs = append(addrs, contacts[i].addr)
		}
	}
	return addrs
}

func (c *contact) rank() int {
	if c.counts {
		return 1
	}
	return 0
}

// lookupFailed keeps asking those that were listed, as one of them may be in a
// cluster; but none is formed on the word of a list that nobody stands by, and
// the stable margin begins anew.
func (m *Machine) lookupFailed(reason string) { m.listed, m.lookup = false, reason }

func (m *Machine) contact(addr string) *contact {
	for i := range m.contacts {
		if m.contacts[i].addr == addr {
			return &m.contacts[i]
		}
	}
	return nil
}

// probe asks whoever is due. A question whose answer never came back, not even
// as a failure, is forgotten after twice its time.
func (m *Machine) probe() {
	if m.phase != probing {
		return
	}
	for i := range m.contacts {
		c := &m.contacts[i]
		if !c.asked.IsZero() && m.now.Sub(c.asked) >= 2*m.cfg.ProbeTimeout {
			c.asked, c.problem = time.Time{}, "no answer in time"
		}
		if c.asked.IsZero() && !m.now.Before(c.next) {
			c.asked = m.now
			m.emit(Probe{c.addr})
		}
	}
}

// answered believes an answer if it makes sense. It counts from the time of its
// question: what a process that was paused reads late is not fresh.
func (m *Machine) answered(addr string, a Answer) {
	c := m.contact(addr)
	if c == nil || c.asked.IsZero() || m.phase != probing {
		return
	}
	at := c.asked
	if mutant.On("question-time") {
		at = m.now
	}
	m.settle(c)
	if _, ok := ParseContactPoint(a.SelfNode); !ok || a.SelfUID == 0 {
		c.problem, c.wrong = fmt.Sprintf("it does not say who it is (selfNode %.80q)", a.SelfNode), true
		return
	}
	if a.Cluster != m.cfg.Cluster {
		c.at = time.Time{} // whatever was there before is gone
		c.problem, c.wrong, c.foreign = fmt.Sprintf("it belongs to cluster %.80q, not %q", a.Cluster, m.cfg.Cluster), true, true
		return
	}
	a.SelfRoles = slices.Clone(a.SelfRoles)
	a.SeedNodes = slices.Clone(a.SeedNodes[:min(len(a.SeedNodes), maxSeeds)])
	a.SeedNodes = slices.DeleteFunc(a.SeedNodes, func(s SeedNode) bool {
		_, ok := ParseContactPoint(s.Node)
		return !ok
	})
	c.answer, c.at = a, at
}

func (m *Machine) probeFailed(addr, reason string) {
	if c := m.contact(addr); c != nil && !c.asked.IsZero() {
		m.settle(c)
		c.problem = reason
	}
}

func (m *Machine) settle(c *contact) {
	c.asked, c.problem, c.wrong, c.foreign = time.Time{}, "", false, false
	c.next = m.now.Add(m.cfg.probeDelay(rand.New(&m.random).Float64()))
}

func (m *Machine) joined() {
	if m.phase == finished || m.phase == idle {
		return
	}
	m.phase, m.why = finished, ""
	m.emit(Finished{})
}

func (m *Machine) explicitJoin(seeds []string) {
	if m.phase == finished || m.phase == gaveUp || len(seeds) == 0 {
		return
	}
	if m.phase == idle {
		m.began = m.now
	}
	m.phase, m.joining = explicit, slices.Clone(seeds[:min(len(seeds), maxSeeds)])
	m.emit(JoinSeeds{slices.Clone(m.joining)})
	m.say("joins through " + strings.Join(m.joining, ", ") + ", as told")
}

// decide asks the decider and does what it says. A veto keeps it from forming a
// cluster on information that contradicts itself.
func (m *Machine) decide() {
	if m.phase != probing && m.phase != explicit {
		return
	}
	if m.phase == probing {
		d, veto := m.decider.Decide(m.Info()), m.veto()
		if d.Choice != JoinOtherSeedNodes && veto != "" {
			d = Decision{Why: "waits: " + veto}
		} else if d.Choice == KeepProbing {
			d.Why += m.silence()
		}
		m.follow(d)
		m.warn()
	}
	if m.cfg.GiveUp > 0 && m.now.Sub(m.began) >= m.cfg.GiveUp {
		m.phase = gaveUp
		m.emit(GaveUp{m.why})
	}
}

// silence says why contact points that are waited for do not answer, or do not
// count.
func (m *Machine) silence() (text string) {
	for i := range m.contacts {
		if c := &m.contacts[i]; c.counts && c.problem != "" && !m.fresh(c) {
			text += fmt.Sprintf(" (%s: %s)", c.addr, c.problem)
		}
	}
	return text
}

func (m *Machine) follow(d Decision) {
	m.say(d.Why)
	switch d.Choice {
	case JoinOtherSeedNodes:
		if !slices.Equal(m.joining, d.Seeds) {
			m.joining = slices.Clone(d.Seeds)
			m.emit(JoinSeeds{d.Seeds})
		}
	case JoinSelf: // repeated until it has happened
		m.emit(FormCluster{})
	}
}

func (m *Machine) say(why string) {
	if why != m.why {
		m.why = why
		m.emit(Waiting{why})
	}
}

// Info is what decisions are made of now.
func (m *Machine) Info() Info {
	info := Info{Self: m.self, Unchanged: m.now.Sub(m.changedAt)}
	for i := range m.contacts {
		c := &m.contacts[i]
		if !m.fresh(c) {
			if c.counts && !c.foreign {
				info.ContactPoints = append(info.ContactPoints, c.point)
			}
			continue
		}
		point, _ := ParseContactPoint(c.answer.SelfNode)
		former := slices.Contains(c.answer.SelfRoles, m.cfg.Former)
		if former {
			info.ContactPoints = append(info.ContactPoints, point)
		}
		if former || len(c.answer.SeedNodes) > 0 {
			o := Observation{Point: point}
			for _, s := range c.answer.SeedNodes {
				o.Seeds = append(o.Seeds, s.Node)
			}
			info.Observations = append(info.Observations, o)
		}
	}
	slices.SortFunc(info.ContactPoints, ContactPoint.Compare)
	info.ContactPoints = slices.Compact(info.ContactPoints)
	slices.SortStableFunc(info.Observations, func(a, b Observation) int { // of one node, what knows of a cluster comes first
		return cmp.Or(a.Point.Compare(b.Point), cmp.Compare(len(b.Seeds), len(a.Seeds)))
	})
	info.Observations = slices.CompactFunc(info.Observations, func(a, b Observation) bool { return a.Point == b.Point })
	return info
}

// fresh reports whether a contact point has answered, not too long ago.
func (m *Machine) fresh(c *contact) bool {
	return !c.at.IsZero() && (m.now.Sub(c.at) <= m.cfg.ProbeTimeout || mutant.On("stale-observation"))
}

// veto says why no cluster may be formed, whatever the decider thinks.
func (m *Machine) veto() string {
	if !m.listed {
		return m.lookup
	}
	if len(m.contacts) == 0 {
		return "discovery lists nobody"
	}
	for i := range m.contacts {
		if c := &m.contacts[i]; m.fresh(c) && c.answer.InCluster && len(c.answer.SeedNodes) == 0 {
			return c.addr + " is in a cluster that nobody can join any more, and has not left it yet"
		}
	}
	return m.conflict()
}

// conflict finds two processes that give themselves the same address.
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

// warn tells what is wrong with contact points that do answer.
func (m *Machine) warn() {
	var problems []string
	for i := range m.contacts {
		if c := &m.contacts[i]; c.wrong {
			problems = append(problems, c.addr+": "+c.problem)
		}
	}
	if why := m.conflict(); why != "" {
		problems = append(problems, why)
	}
	if text := strings.Join(problems, "; "); text != m.warned {
		m.warned = text
		if text != "" {
			m.emit(Warning{text})
		}
	}
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }
