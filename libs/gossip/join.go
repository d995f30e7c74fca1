package gossip

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

func (m *Machine) start() {
	if m.phase != idle {
		return
	}
	if len(m.otherSeeds()) == 0 && !m.cfg.Wait {
		m.form()
		return
	}
	m.search()
}

// search begins to look for a cluster.
func (m *Machine) search() {
	m.phase = seeking
	m.sought = m.now
	m.resetSearch(m.now)
	m.seek()
}

// joinVia joins through one address, whatever the seeds say.
func (m *Machine) joinVia(addr string) {
	switch {
	case m.phase != idle && m.phase != seeking || addr == "" || len(addr) > maxAddrLen:
	case addr == m.self.Addr:
		m.form()
	default:
		m.via, m.target, m.nextJoin = addr, sharding.NodeID{}, m.now
		m.search()
	}
}

// askable are the addresses that are asked for a cluster.
func (m *Machine) askable() []string {
	if m.via != "" {
		return []string{m.via}
	}
	return m.otherSeeds()
}

// setSeeds begins the search anew, with other addresses.
func (m *Machine) setSeeds(seeds []string) {
	if slices.Equal(m.cfg.Seeds, seeds) {
		return
	}
	m.cfg.Seeds = slices.Clone(seeds)
	m.nacks = nil
	if m.phase == seeking {
		m.nextJoin = m.now
		m.seek()
	}
}

func (m *Machine) otherSeeds() []string {
	return slices.DeleteFunc(slices.Clone(m.cfg.Seeds), func(s string) bool { return s == m.self.Addr })
}

func (m *Machine) mayForm() bool {
	return !m.cfg.Wait && m.via == "" && (len(m.cfg.Seeds) == 0 || m.cfg.Seeds[0] == m.self.Addr)
}

func (m *Machine) resetSearch(from time.Time) {
	m.formAt, m.nackedAt = from.Add(m.cfg.SeedTimeout), from.Add(m.cfg.SeedNackTimeout)
	m.nacks = nil
}

// signOfCluster delays the forming of another one, counted from a time.
func (m *Machine) signOfCluster(from time.Time) {
	m.heardAt = from
	m.resetSearch(from)
}

// formWhenAlone forms a cluster on request, but not when there was a sign of one
// lately: asked again, it may do so when that one has been silent for as long as
// a first seed would wait.
func (m *Machine) formWhenAlone() {
	heard := !m.heardAt.IsZero() && m.now.Sub(m.heardAt) < m.cfg.SeedTimeout
	if m.phase == seeking && m.cfg.Wait && m.via == "" && m.target.IsZero() && !heard {
		m.form()
	}
}

// form makes a cluster of this node alone.
func (m *Machine) form() {
	m.phase = member
	m.resetTimers()
	s := State{Cluster: ClusterID{m.now.UnixMilli(), m.self.UID}}
	m.change(s.with(m.cfg.selfAs(Joining)))
	m.lead() // so that the founder is the oldest, unless it has to wait for others
}

func (m *Machine) resetTimers() {
	m.nextBeat, m.nextGossip, m.nextJoin, m.eraSince = m.now, m.now, m.now, m.now
}

// seek goes on looking for a cluster, or insisting to be let in.
func (m *Machine) seek() {
	if m.cfg.JoinGiveUp > 0 && m.now.Sub(m.sought) >= m.cfg.JoinGiveUp {
		m.giveUp()
		return
	}
	if m.mayForm() && m.target.IsZero() {
		allNacked := len(m.nacks) == len(m.otherSeeds()) && !m.now.Before(m.nackedAt)
		if allNacked || !m.now.Before(m.formAt) {
			m.form()
			return
		}
	}
	if !m.target.IsZero() && !m.now.Before(m.targetBy) {
		m.target = sharding.NodeID{}
	}
	if m.now.Before(m.nextJoin) {
		return
	}
	m.nextJoin = m.now.Add(m.cfg.JoinInterval)
	if !m.target.IsZero() {
		m.askIn()
		return
	}
	for _, s := range m.askable() {
		m.send(sharding.NodeID{Addr: s}, InitJoin{})
	}
}

// giveUp ends the search, and says how far it came.
func (m *Machine) giveUp() {
	why := fmt.Sprintf("no member answered at %s", strings.Join(m.askable(), ", "))
	switch {
	case m.refusal != "":
		why = "the last refusal: " + m.refusal
	case !m.target.IsZero():
		why = m.target.String() + " is in a cluster, but did not let this node in"
	}
	m.stop(JoinFailed{fmt.Sprintf("not let in within %v; %s", m.cfg.JoinGiveUp, why)})
}

func (m *Machine) askIn() {
	self := m.cfg.selfAs(Joining)
	m.send(m.target, Join{
		Name: self.Name, Roles: self.Roles, Zone: self.Zone, Version: self.Version, Settings: m.cfg.settings(), Era: m.targetEra,
	})
}

// heardOf is a cluster, and the number of the era in which this node heard of it
// first.
type heardOf struct {
	cluster ClusterID
	era     uint64
}

// maxHeardOf bounds the clusters that one node hears of while it looks for one.
const maxHeardOf = 64

// admission is the era of admission of this node in a cluster, which never
// changes: that in which it hears of it first.
func (m *Machine) admission(c Claim) (era uint64, ok bool) {
	for _, h := range m.heardOf {
		if h.cluster == c.Cluster {
			return h.era, true
		}
	}
	if len(m.heardOf) >= maxHeardOf {
		return 0, false
	}
	m.heardOf = append(m.heardOf, heardOf{c.Cluster, c.Era.Number})
	return c.Era.Number, true
}

// foundCluster asks a node that showed to be in a cluster to let us in. Any
// such sign also delays forming one.
func (m *Machine) foundCluster(at sharding.NodeID, its Claim) {
	if m.via != "" && at.Addr != m.via {
		return // not the one that was asked for
	}
	m.signOfCluster(m.now)
	if !m.target.IsZero() {
		return
	}
	era, ok := m.admission(its)
	if !ok {
		m.stop(JoinFailed{fmt.Sprintf("heard of more than %d clusters; start this process again", maxHeardOf)})
		return
	}
	m.target, m.targetEra = at, era
	m.targetBy = m.now.Add(m.cfg.JoinTimeout)
	m.nextJoin = m.now.Add(m.cfg.JoinInterval)
	m.askIn()
}

func (m *Machine) initJoin(from sharding.NodeID) {
	if m.phase == member && m.status() < Exiting {
		m.send(from, InitJoinAck{m.state.claim()})
		return
	}
	m.send(from, InitJoinNack{})
}

func (m *Machine) initJoinNack(from sharding.NodeID) {
	if m.phase == seeking && slices.Contains(m.otherSeeds(), from.Addr) && !slices.Contains(m.nacks, from.Addr) {
		m.nacks = append(m.nacks, from.Addr)
		slices.Sort(m.nacks)
	}
}

func (m *Machine) initJoinAck(from sharding.NodeID, theirs Claim) {
	if m.phase == seeking {
		m.foundCluster(from, theirs)
		return
	}
	if theirs.Cluster != m.state.Cluster {
		m.contend(from, theirs, false)
		return
	}
	if m.disown(from) {
		return // down here, and alive: it does not know, or holds us for down
	}
	if _, ok := m.state.Member(from); !ok {
		m.sendStatus(from) // a member that came in elsewhere: get to know it
	}
}

// letIn adds a joiner, or welcomes it once more.
func (m *Machine) letIn(from sharding.NodeID, msg Join) {
	if m.phase != member || m.disown(from) {
		return
	}
	if m.status() >= Exiting {
		m.send(from, JoinRefused{Reason: "this member is leaving itself"})
		return
	}
	if _, ok := m.state.Member(from); ok {
		m.send(from, Welcome{m.state})
		return
	}
	joiner := Member{
		Node: from, Name: msg.Name, Roles: msg.Roles, Zone: msg.Zone, Version: msg.Version, Status: Joining, Era: msg.Era,
	}
	if why, final := m.objection(&joiner, msg.Settings); why != "" {
		m.emit(Refused{from, "join: " + why})
		m.send(from, JoinRefused{why, final})
		return
	}
	if m.askOldIncarnations(from) { // it will ask again
		m.send(from, JoinRefused{Reason: "an earlier incarnation is still a member at this address"})
		return
	}
	m.change(m.state.with(joiner))
	m.send(from, Welcome{m.state})
}

// objection tells why a joiner is not let in, and whether that is final.
func (m *Machine) objection(joiner *Member, settings []Setting) (why string, final bool) {
	if why := cmp.Or(joiner.check(), checkSettings(settings)); why != "" {
		return why, true
	}
	if other, ok := m.sameUID(joiner.Node); ok {
		m.quarantine(joiner.Node, "it has the uid of "+other.String())
		return "the uid is that of " + other.String() + "; start this process again, and never from a copy of a running one", true
	}
	switch era := m.state.Era; {
	case era.forgotten(joiner.Era) && !mutant.On("era-join"):
		return "it has been asking for longer than removed nodes are remembered, and may be one; start this process again", true
	case joiner.Era > era.Number:
		return "this member has not heard of the latest era yet", false
	case len(m.state.Tombstones) >= m.cfg.MaxTombstones:
		return fmt.Sprintf("the cluster remembers %d removed nodes, and can forget none of them before all members have heard of them: down or remove members that are unreachable", len(m.state.Tombstones)), false
	}
	if diff := differing(m.cfg.settings(), settings); diff != "" && !mutant.On("config-check") {
		return "settings differ: " + diff, true
	}
	if len(m.state.Members) >= m.cfg.MaxMembers {
		return fmt.Sprintf("the cluster has %d members, as many as there may be; remove some first", m.cfg.MaxMembers), false
	}
	return "", false
}

// joinRefused hears why this node is not let in.
func (m *Machine) joinRefused(from sharding.NodeID, msg JoinRefused) {
	if m.phase != seeking || m.via != "" && from.Addr != m.via {
		return
	}
	m.signOfCluster(m.now) // whoever refuses is in one
	if from != m.target {
		return // asked before somebody else was
	}
	if msg.Final && !m.cfg.RetryRefused {
		m.stop(JoinFailed{"refused by " + from.String() + ": " + msg.Reason})
		return
	}
	if m.refusal != msg.Reason {
		m.refusal = msg.Reason
		m.emit(NotLetIn{from, msg.Reason})
	}
	if msg.Final {
		m.nextJoin = m.now.Add(m.cfg.JoinTimeout)
		m.signOfCluster(m.nextJoin) // until it asks again, silence says nothing
	}
}

// askOldIncarnations tells whether members at the address of a joiner are in
// the way, and sends each a heartbeat. Only the reply decides which of them
// lives there: the joiner's message may be older than the member. One that is
// down and proven gone is not in the way, although it cannot be removed while
// others are unreachable: the joiner may be the one who can decide about them.
func (m *Machine) askOldIncarnations(joiner sharding.NodeID) bool {
	m.watchAt(joiner.Addr)
	at := m.peersAt(joiner.Addr)
	inTheWay := false
	for i := range at {
		p := &at[i]
		if mem, ok := m.state.Member(p.node); ok && mem.Status == Down && m.state.verdict(p.node) == Terminated {
			continue
		}
		inTheWay = true
		p.askedUntil = m.now.Add(m.cfg.JoinTimeout)
		if m.state.Reach.Of(m.self, p.node) != Terminated {
			m.seq++
			m.beatTo(p)
			m.disputeOf(joiner, m.seq)
		}
	}
	m.former = m.former || len(at) > 0
	return inTheWay
}

func (m *Machine) welcome(from sharding.NodeID, s *State) {
	if m.phase == member {
		all := s.whole()
		m.gossip(from, &all)
		return
	}
	if why := s.check(m.cfg.MaxMembers); why != "" {
		m.emit(Refused{from, "welcome: " + why})
		return
	}
	self, ok := s.Member(m.self)
	if !ok {
		return
	}
	if self.Status == Down {
		m.stop(SelfDowned{"declared down before it could join"})
		return
	}
	m.phase = member
	m.refusal = ""
	m.resetTimers()
	p := s.sums()
	m.take(*s, &p, s.seenBy(m.self))
	m.sendStatus(from)
}

// announce tells seed addresses where the cluster is, unless a member lives
// there that is reachable: an unreachable one may have been started anew, and
// must not form another cluster before this one downs its former incarnation.
func (m *Machine) announce() {
	if m.phase != member || m.now.Before(m.nextJoin) || m.status() >= Exiting {
		return
	}
	m.nextJoin = m.now.Add(m.cfg.JoinInterval)
	if !m.chance(float64(m.cfg.MonitoredBy+1) / float64(len(m.state.Members))) {
		return // in a large cluster others do
	}
	for _, s := range m.otherSeeds() {
		lives := false
		for _, mem := range m.state.at(s) {
			lives = lives || mem.Status != Down && m.state.Reach.Of(m.self, mem.Node) == Reachable
		}
		if !lives {
			m.send(sharding.NodeID{Addr: s}, InitJoinAck{m.state.claim()})
		}
	}
}

// notMember hears that the sender holds this node for no member. Whom this
// node itself holds for a member is believed; with others it is a contest.
func (m *Machine) notMember(from sharding.NodeID, msg NotMember) {
	switch {
	case m.phase == seeking:
		m.stop(SelfDowned{"declared down before it could join"})
		return
	case m.status() == Exiting:
		m.stop(Left{})
		return
	}
	if mem, ok := m.state.Member(from); ok && mem.Status != Down {
		m.stop(SelfDowned{"declared down, says " + from.String()})
		return
	}
	m.contend(from, msg.Claim, msg.Answer)
}

// contend settles who stops when two clusters, or two halves of one, meet.
func (m *Machine) contend(from sharding.NodeID, theirs Claim, answer bool) {
	mine := m.state.claim()
	if !mine.Senior(theirs) {
		// The others may never meet the senior side, and would let nodes in that
		// it ends, again and again.
		for i := range m.peers {
			m.send(m.peers[i].node, NotMember{Claim: theirs, Answer: true})
		}
		m.stop(SelfDowned{"in the junior one of two clusters, says " + from.String()})
		return
	}
	if !answer {
		m.send(from, NotMember{Claim: mine, Answer: true})
	}
}
