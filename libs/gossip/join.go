package gossip

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

func (m *Machine) start() {
	if m.phase != idle {
		return
	}
	if len(m.otherSeeds()) == 0 && !m.cfg.DriverDecides {
		m.form()
		return
	}
	m.search()
}

// search begins to look for a cluster.
func (m *Machine) search() {
	m.phase = seeking
	m.seekingSince = m.now
	m.resetSearch(m.now)
	m.seek()
}

// joinVia joins the cluster of the node at one address, whatever the seeds say.
func (m *Machine) joinVia(addr string) {
	switch {
	case m.phase != idle && m.phase != seeking || addr == "" || len(addr) > sharding.MaxAddrLen:
	case addr == m.self.Addr:
		m.form()
	default:
		m.viaAddr, m.joinTarget, m.nextJoin = addr, sharding.NodeID{}, m.now
		m.search()
	}
}

// joinAddrs are the addresses at which this node asks whether there is a cluster.
func (m *Machine) joinAddrs() []string {
	if m.viaAddr != "" {
		return []string{m.viaAddr}
	}
	return m.otherSeeds()
}

// setSeeds replaces the seeds. A search in progress uses the new ones at once; its timeouts
// continue.
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

// mayForm reports whether this node forms a cluster on its own if it finds none: it is the first seed or
// has no seeds, and neither Wait nor JoinVia leaves the choice to others.
func (m *Machine) mayForm() bool {
	return !m.cfg.DriverDecides && m.viaAddr == "" && (len(m.cfg.Seeds) == 0 || m.cfg.Seeds[0] == m.self.Addr)
}

// resetSearch restarts the wait before this node forms a cluster. The wait counts from since.
func (m *Machine) resetSearch(since time.Time) {
	m.formAt, m.formAtIfNacked = since.Add(m.cfg.SeedTimeout), since.Add(m.cfg.SeedNackTimeout)
	m.nacks = nil
}

// delayForming is called when this node learns of a cluster. It restarts the wait before this
// node forms one of its own; the wait counts from since.
func (m *Machine) delayForming(since time.Time) {
	m.lastHeardAt = since
	m.resetSearch(since)
}

// formWhenAlone forms a cluster on request, unless this node has heard of another one within
// SeedTimeout, which is also how long a first seed waits.
func (m *Machine) formWhenAlone() {
	heard := !m.lastHeardAt.IsZero() && m.now.Sub(m.lastHeardAt) < m.cfg.SeedTimeout
	if m.phase == seeking && m.cfg.DriverDecides && m.viaAddr == "" && m.joinTarget.IsZero() && !heard {
		m.form()
	}
}

// form forms a cluster of this node alone.
func (m *Machine) form() {
	m.phase = member
	m.resetTimers()
	s := State{Cluster: Founding{m.now.UnixMilli(), m.self.UID}}
	m.change(s.with(m.cfg.selfAs(Joining)))
	m.lead() // makes the founder the oldest, unless it has to wait for others
}

func (m *Machine) resetTimers() {
	m.nextHeartbeat, m.nextGossip, m.nextJoin, m.eraSince = m.now, m.now, m.now, m.now
}

// seek continues the search for a cluster, or the attempts to join the one found.
func (m *Machine) seek() {
	if m.cfg.JoinGiveUp > 0 && m.now.Sub(m.seekingSince) >= m.cfg.JoinGiveUp {
		m.giveUp()
		return
	}
	if m.mayForm() && m.joinTarget.IsZero() {
		allNacked := len(m.nacks) == len(m.otherSeeds()) && !m.now.Before(m.formAtIfNacked)
		if allNacked || !m.now.Before(m.formAt) {
			m.form()
			return
		}
	}
	if !m.joinTarget.IsZero() && !m.now.Before(m.joinTargetUntil) {
		m.joinTarget = sharding.NodeID{}
	}
	if m.now.Before(m.nextJoin) {
		return
	}
	m.nextJoin = m.now.Add(m.cfg.JoinInterval)
	if !m.joinTarget.IsZero() {
		m.sendJoin()
		return
	}
	for _, s := range m.joinAddrs() {
		m.send(sharding.NodeID{Addr: s}, InitJoin{})
	}
}

// giveUp ends the search. Its event describes how far the search got.
func (m *Machine) giveUp() {
	why := fmt.Sprintf("no member answered at %s", strings.Join(m.joinAddrs(), ", "))
	switch {
	case m.refusal != "":
		why = "the last refusal: " + m.refusal
	case !m.joinTarget.IsZero():
		why = m.joinTarget.String() + " is in a cluster, but did not admit this node"
	}
	m.stop(JoinFailed{fmt.Sprintf("not admitted within %v; %s", m.cfg.JoinGiveUp, why)})
}

func (m *Machine) sendJoin() {
	self := m.cfg.selfAs(Joining)
	m.send(m.joinTarget, Join{
		Name: self.Name, Roles: self.Roles, Zone: self.Zone, Version: self.Version, Settings: m.cfg.settings(), HeardIn: m.heardIn,
	})
}

// knownCluster is a cluster that this node has heard of. era is the number of the era in
// which it did so first, see firstHeard.
type knownCluster struct {
	cluster Founding
	era     uint64
}

// maxKnownClusters bounds the clusters that one node learns of while it looks for one.
const maxKnownClusters = 64

// firstHeard returns the number of the era in which this node first heard of a cluster. The
// number is lowered if this node later learns of the same cluster in an earlier era: the
// cluster may have parted into two halves, and the half in the later era may be gone. ok is
// false if this node has heard of too many clusters.
func (m *Machine) firstHeard(c Seniority) (era uint64, ok bool) {
	for i := range m.knownClusters {
		if h := &m.knownClusters[i]; h.cluster == c.Cluster {
			h.era = min(h.era, c.Era.Number)
			return h.era, true
		}
	}
	if len(m.knownClusters) >= maxKnownClusters {
		return 0, false
	}
	m.knownClusters = append(m.knownClusters, knownCluster{c.Cluster, c.Era.Number})
	return c.Era.Number, true
}

// joinThrough asks a node to admit this one. seniority is the one of the node's cluster. Learning of a
// cluster also delays forming one.
func (m *Machine) joinThrough(target sharding.NodeID, seniority Seniority) {
	if m.viaAddr != "" && target.Addr != m.viaAddr {
		return // JoinVia names another address
	}
	m.delayForming(m.now)
	if !m.joinTarget.IsZero() {
		return
	}
	era, ok := m.firstHeard(seniority)
	if !ok {
		m.stop(JoinFailed{fmt.Sprintf("heard of more than %d clusters; start this process again", maxKnownClusters)})
		return
	}
	m.joinTarget, m.heardIn = target, era
	m.joinTargetUntil = m.now.Add(m.cfg.JoinTimeout)
	m.nextJoin = m.now.Add(m.cfg.JoinInterval)
	m.sendJoin()
}

func (m *Machine) initJoin(from sharding.NodeID) {
	if m.phase == member && m.status() < Exiting {
		m.send(from, InitJoinAck{m.state.seniority()})
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

func (m *Machine) initJoinAck(from sharding.NodeID, theirs Seniority) {
	if m.phase == seeking {
		m.joinThrough(from, theirs)
		return
	}
	if theirs.Cluster != m.state.Cluster {
		m.resolveSeniority(from, theirs, false)
		return
	}
	if m.rejectExcluded(from) {
		return // one of the two considers the other one down, although both live
	}
	if _, ok := m.state.Member(from); !ok {
		m.sendStatus(from) // another member has admitted it: ask for the state in which it is a member
	}
}

// admit adds a joiner, or repeats the welcome if it is a member already.
func (m *Machine) admit(from sharding.NodeID, msg Join) {
	if m.phase != member || m.rejectExcluded(from) {
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
		Node: from, Name: msg.Name, Roles: msg.Roles, Zone: msg.Zone, Version: msg.Version, Status: Joining, HeardIn: msg.HeardIn,
	}
	if why, final := m.rejectReason(&joiner, msg.Settings); why != "" {
		m.emit(Refused{from, "join: " + why})
		m.send(from, JoinRefused{why, final})
		return
	}
	if m.challengeOldIncarnations(from) { // it will ask again
		m.send(from, JoinRefused{Reason: "an earlier incarnation is still a member at this address"})
		return
	}
	m.change(m.state.with(joiner))
	m.send(from, Welcome{m.state})
}

// rejectReason returns why a joiner is not admitted, or "" if it is. final is true if it is of no use to
// ask again.
func (m *Machine) rejectReason(joiner *Member, settings []Setting) (why string, final bool) {
	if why := cmp.Or(joiner.check(), checkSettings(settings)); why != "" {
		return why, true
	}
	if other, ok := m.sameUID(joiner.Node); ok {
		m.ban(joiner.Node, "it has the uid of "+other.String())
		return "the uid belongs to " + other.String() + "; start this process again, and never from a copy of a running one", true
	}
	switch era := m.state.Era; {
	case era.forgotten(joiner.HeardIn): //mutant:false era-join
		return "it may have been removed and forgotten: it first heard of this cluster two or more eras ago; restart the process", true
	case joiner.HeardIn > era.Number:
		return "this member has not heard of the latest era yet", false
	case len(m.state.Tombstones) >= m.cfg.MaxTombstones:
		return fmt.Sprintf("the cluster remembers %d removed nodes, and can forget none of them before all members have heard of them: down or remove members that are unreachable", len(m.state.Tombstones)), false
	}
	// Invariant: a node with a different configuration does not join. A node that says about itself what cannot be true
	// does not join either.
	// Mutants: config-check, quarantine
	if diff := differing(m.cfg.settings(), settings); diff != "" { //mutant:false config-check
		return "settings differ: " + diff, true
	}
	if len(m.state.Members) >= m.cfg.MaxMembers {
		return fmt.Sprintf("the cluster has %d members, as many as there may be; remove some first", m.cfg.MaxMembers), false
	}
	return "", false
}

// joinRefused handles the refusal of a member to admit this node.
func (m *Machine) joinRefused(from sharding.NodeID, msg JoinRefused) {
	if m.phase != seeking || m.viaAddr != "" && from.Addr != m.viaAddr {
		return
	}
	m.delayForming(m.now) // a node that refuses is in a cluster
	if from != m.joinTarget {
		return // the refusal comes from an earlier target
	}
	if msg.Final && !m.cfg.RetryRefused {
		m.stop(JoinFailed{"refused by " + from.String() + ": " + msg.Reason})
		return
	}
	if m.refusal != msg.Reason {
		m.refusal = msg.Reason
		m.emit(JoinRejected{from, msg.Reason})
	}
	if msg.Final {
		m.nextJoin = m.now.Add(m.cfg.JoinTimeout)
		m.delayForming(m.nextJoin) // the wait begins when this node asks again: until then no answer comes
	}
}

// challengeOldIncarnations sends a heartbeat to every member at the address of a joiner. It
// reports whether one of these members is in the way of the joiner's admission. Only a reply
// shows which incarnation lives at the address, because the joiner's message may be older
// than the member. A member that is down and proven gone is not in the way, even if it cannot
// be removed yet because other members are unreachable. Otherwise there could be a deadlock:
// the joiner may be the node that has to decide about those members.
func (m *Machine) challengeOldIncarnations(joiner sharding.NodeID) (inTheWay bool) {
	m.watchAt(joiner.Addr)
	at := m.peersAt(joiner.Addr)
	for i := range at {
		p := &at[i]
		if mem, ok := m.state.Member(p.node); ok && mem.Status == Down && m.state.verdict(p.node) == Terminated {
			continue
		}
		inTheWay = true
		p.askedUntil = m.now.Add(m.cfg.JoinTimeout)
		if m.state.Reach.Of(m.self, p.node) != Terminated {
			m.seq++
			m.sendHeartbeat(p, 0)
			m.addDispute(joiner, m.seq) // the node that answers this heartbeat is not the joiner: see settleDisputes
		}
	}
	// They need not be receivers of this node's heartbeats: they are watched until they answer.
	m.watchingFormerReceivers = m.watchingFormerReceivers || len(at) > 0
	return inTheWay
}

func (m *Machine) welcome(from sharding.NodeID, s *State) {
	if m.phase == member {
		all := s.whole() // a repeated welcome is handled like gossip
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
	m.adopt(*s, &p, s.seenBy(m.self))
	m.sendStatus(from)
}

// announce tells seed addresses that there is a cluster, so that a seed that was restarted does not form
// another one. It skips the address of a reachable member, but not of an unreachable one: the seed may have
// been restarted there, although its old incarnation is not down yet.
func (m *Machine) announce() {
	if m.phase != member || m.now.Before(m.nextJoin) || m.status() >= Exiting {
		return
	}
	m.nextJoin = m.now.Add(m.cfg.JoinInterval)
	if !m.chance(float64(m.cfg.MonitoredBy+1) / float64(len(m.state.Members))) {
		return // on average MonitoredBy+1 members announce it per interval: that is enough
	}
	for _, s := range m.otherSeeds() {
		reachable := false
		for _, mem := range m.state.membersAt(s) {
			reachable = reachable || mem.Status != Down && m.state.Reach.Of(m.self, mem.Node) == Reachable
		}
		if !reachable {
			m.send(sharding.NodeID{Addr: s}, InitJoinAck{m.state.seniority()})
		}
	}
}

// notMember handles a message from a node that does not have this node as a member.
//
//   - It is ignored if it is about an era that this node has left.
//   - A node that was not admitted yet stops.
//   - A node that is exiting has now left.
//   - A node in any other status stops if it knows the sender, or the oldest member of the
//     sender's cluster, as a member that is not down. Then the two are no halves that have parted:
//     the cluster of this node has excluded it, for example while it was paused, and the
//     sender may have joined since. Seniority would be wrong here, because this node may be the oldest.
//     Otherwise the senior side wins (resolveSeniority).
func (m *Machine) notMember(from sharding.NodeID, msg NotMember) {
	switch {
	// Invariant: late gossip does not cause a member to be excluded.
	// Guarded by: `gossip.notMember`: a message about an era that this node has left is ignored.
	// Mutants: era-left
	//mutant:false era-left
	case msg.Outdated && msg.Era != m.state.Era:
		return // about gossip that this node sent before it moved on
	case m.phase == seeking:
		m.stop(SelfDowned{"declared down before it could join"})
		return
	case m.status() == Exiting:
		m.stop(Left{})
		return
	}
	//mutant:false excluded-by-own-side
	sameSide := msg.Seniority.Cluster == m.state.Cluster && m.hasNotDown(msg.Seniority.OldestNode)
	if m.hasNotDown(from) || sameSide {
		m.stop(SelfDowned{"declared down, says " + from.String()})
		return
	}
	m.resolveSeniority(from, msg.Seniority, msg.Answer)
}

// hasNotDown reports whether this node knows a node as a member that is not down.
func (m *Machine) hasNotDown(n sharding.NodeID) bool {
	mem, ok := m.state.Member(n)
	return ok && mem.Status != Down
}

// resolveSeniority settles who stops when two clusters, or two halves of one, meet: this node, unless its side
// is senior. Then it sends its seniority to the other node, which does the same. answer is true if theirs
// answers this node; it is not answered again.
func (m *Machine) resolveSeniority(from sharding.NodeID, theirs Seniority, answer bool) {
	mine := m.state.seniority()
	if !mine.Senior(theirs) {
		// The peers learn of the senior side before this node stops. They may never meet the senior side
		// themselves, and would keep admitting nodes that the senior side stops.
		for i := range m.peers {
			m.send(m.peers[i].node, NotMember{Seniority: theirs, Answer: true})
		}
		m.stop(SelfDowned{"in the junior one of two clusters, says " + from.String()})
		return
	}
	if !answer {
		m.send(from, NotMember{Seniority: mine, Answer: true})
	}
}
