package gossip

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

func (m *Machine) start() {
	if m.phase != idle {
		return
	}
	if len(m.otherSeeds()) == 0 {
		m.form()
		return
	}
	m.phase = seeking
	m.resetSearch()
	m.seek()
}

func (m *Machine) otherSeeds() []string {
	return slices.DeleteFunc(slices.Clone(m.cfg.Seeds), func(s string) bool { return s == m.self.Addr })
}

func (m *Machine) mayForm() bool { return len(m.cfg.Seeds) == 0 || m.cfg.Seeds[0] == m.self.Addr }

func (m *Machine) resetSearch() {
	m.formAt, m.nackedAt = m.now.Add(m.cfg.SeedTimeout), m.now.Add(m.cfg.SeedNackTimeout)
	m.nacks = nil
}

// form makes a cluster of this node alone.
func (m *Machine) form() {
	m.phase = member
	m.resetTimers()
	self := m.cfg.selfAs(Up)
	self.UpNumber = 1
	s := State{Cluster: ClusterID{m.now.UnixMilli(), m.self.UID}}
	m.change(s.with(self))
}

func (m *Machine) resetTimers() {
	m.nextBeat, m.nextGossip, m.nextJoin = m.now, m.now, m.now
	m.cursor = m.self
}

// seek goes on looking for a cluster, or insisting to be let in.
func (m *Machine) seek() {
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
	for _, s := range m.otherSeeds() {
		m.send(sharding.NodeID{Addr: s}, InitJoin{})
	}
}

func (m *Machine) askIn() {
	self := m.cfg.selfAs(Joining)
	m.send(m.target, Join{Name: self.Name, Roles: self.Roles})
}

// foundCluster asks a node that showed to be in a cluster to let us in. Any
// such sign also delays forming one.
func (m *Machine) foundCluster(at sharding.NodeID) {
	m.resetSearch()
	if !m.target.IsZero() {
		return
	}
	m.target = at
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
		m.foundCluster(from)
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
	if m.phase != member || m.status() >= Exiting || m.disown(from) {
		return
	}
	if _, ok := m.state.Member(from); ok {
		m.send(from, Welcome{m.state})
		return
	}
	joiner := Member{Node: from, Name: msg.Name, Roles: msg.Roles, Status: Joining}
	if why := joiner.check(); why != "" {
		m.emit(Refused{from, "join: " + why})
		return
	}
	if len(m.state.Members) >= m.cfg.MaxMembers {
		m.emit(Refused{from, "join: the cluster has as many members as allowed"})
		return
	}
	if m.askOldIncarnations(from) {
		return // it will ask again
	}
	m.change(m.state.with(joiner))
	m.send(from, Welcome{m.state})
}

// askOldIncarnations tells whether members at the address of a joiner are in
// the way, and sends each a heartbeat. Only the reply decides which of them
// lives there: the joiner's message may be older than the member.
func (m *Machine) askOldIncarnations(joiner sharding.NodeID) bool {
	inTheWay := false
	for i := range m.peers {
		p := &m.peers[i]
		if p.node.Addr != joiner.Addr {
			continue
		}
		inTheWay = true
		if m.state.Reach.Of(m.self, p.node) != Terminated {
			m.seq++
			m.beatTo(p)
		}
	}
	return inTheWay
}

func (m *Machine) welcome(from sharding.NodeID, s *State) {
	if m.phase == member {
		m.gossip(from, s)
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
	m.resetTimers()
	m.take(*s, union(s.Seen, []sharding.NodeID{m.self}))
	m.sendStatus(from)
}

// announce tells seed addresses that are no members where the cluster is.
func (m *Machine) announce() {
	if m.phase != member || m.now.Before(m.nextJoin) || m.status() >= Exiting {
		return
	}
	m.nextJoin = m.now.Add(m.cfg.JoinInterval)
	for _, s := range m.otherSeeds() {
		if !slices.ContainsFunc(m.state.Members, func(mem Member) bool { return mem.Node.Addr == s && mem.Status != Down }) {
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
		m.stop(SelfDowned{"in the junior one of two clusters, says " + from.String()})
		return
	}
	if !answer {
		m.send(from, NotMember{Claim: mine, Answer: true})
	}
}
