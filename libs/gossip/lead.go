package gossip

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// exitNotices is the number of members that a node informs that it is down or exiting, before it stops.
const exitNotices = 5

// down declares members gone permanently, and tells them; this node stops last, if
// it is among them. There is a reason if a [Downing] provider decided it.
func (m *Machine) down(nodes []sharding.NodeID, reason string) {
	if m.phase != member {
		return
	}
	s := m.state
	var told []sharding.NodeID
	for _, n := range nodes {
		if mem, ok := s.Member(n); ok && mem.Status != Down {
			downed := *mem
			downed.Status = Down
			s = s.with(downed)
			told = append(told, n)
		}
	}
	if len(told) == 0 {
		return
	}
	if reason != "" {
		m.emit(DowningDecided{Down: told, Reason: reason})
	}
	m.change(s)
	for _, n := range told {
		if n != m.self {
			m.send(n, NotMember{Seniority: m.state.seniority()})
		}
	}
	if m.status() == Down {
		m.announceOwnDowning()
		m.stop(SelfDowned{cmp.Or(reason, "declared down on this node")})
	}
}

func (m *Machine) announceOwnDowning() {
	for i := 0; i < exitNotices; i++ {
		to, ok := m.nextTarget()
		if !ok {
			return
		}
		m.sendPartOf(m.self, to)
	}
}

// lead moves members on, if this node is the leader and the state has converged.
func (m *Machine) lead() {
	if m.phase != member || m.leader() != m.self {
		m.notConvergedSince = time.Time{}
		return
	}
	if !m.state.converged(m.self, m.confirmedExits, m.suspects) {
		m.leadWeakly()
		return
	}
	m.notConvergedSince = time.Time{}
	enough := m.enoughMembers()
	s := m.state
	up := s.lastUpNumber()
	var removed, exiting []sharding.NodeID
	changed := false
	for _, known := range m.state.membersByNode() { // as up numbers are to be
		mem := *known
		switch mem.Status {
		case Joining, WeaklyUp:
			if !enough {
				continue
			}
			up++
			mem.Status, mem.UpNumber = Up, up
		case Leaving:
			mem.Status = Exiting
			exiting = append(exiting, mem.Node)
		case Exiting, Down:
			if mem.Node != m.self && (slices.Contains(m.confirmedExits, mem.Node) || s.verdict(mem.Node) != Reachable) {
				removed = append(removed, mem.Node)
			}
			continue
		default:
			continue
		}
		s = s.with(mem)
		changed = true
	}
	if len(removed) > 0 {
		s = s.without(removed...)
	}
	if !changed && len(removed) == 0 {
		m.beginEra()
		return
	}
	m.change(s)
	for _, n := range removed {
		m.send(n, NotMember{Seniority: m.state.seniority()})
	}
	for _, n := range m.state.concernedBy(exiting) {
		if n != m.self {
			m.sendStatus(n)
		}
	}
}

// concernedBy lists the members that should hear at once that nodes are exiting,
// because a role may be handed over from or to them: the two oldest members, and
// the two oldest of every role of the exiting nodes.
func (s *State) concernedBy(exiting []sharding.NodeID) []sharding.NodeID {
	var roles []string
	for _, n := range exiting {
		if mem, ok := s.Member(n); ok {
			roles = append(append(roles, ""), mem.Roles...)
		}
	}
	slices.Sort(roles)
	byAge := slices.SortedFunc(slices.Values(s.Members), (*Member).byAge)
	var out []sharding.NodeID
	for _, role := range slices.Compact(roles) {
		missing := 2
		for i := 0; i < len(byAge) && missing > 0; i++ {
			if byAge[i].HasRole(role) {
				out = append(out, byAge[i].Node)
				missing--
			}
		}
	}
	slices.SortFunc(out, sharding.NodeID.Compare)
	return slices.Compact(out)
}

// leadWeakly makes reachable joining members weakly up when convergence takes too
// long: they are members, but may not own anything.
func (m *Machine) leadWeakly() {
	if m.notConvergedSince.IsZero() {
		m.notConvergedSince = m.now
	}
	if m.cfg.WeaklyUpAfter == 0 || m.now.Sub(m.notConvergedSince) < m.cfg.WeaklyUpAfter || !m.enoughMembers() {
		return
	}
	s, changed := m.state, false
	for _, mem := range m.state.Members {
		if mem.Status == Joining && (mem.Node == m.self || s.verdict(mem.Node) == Reachable) {
			weakly := *mem
			weakly.Status = WeaklyUp
			s, changed = s.with(weakly), true
		}
	}
	if changed {
		m.change(s)
	}
}

// enoughMembers reports whether enough members have joined for the first one to
// come up.
func (m *Machine) enoughMembers() bool {
	// Invariant: no member is up before there are enough members.
	// Mutants: min-members
	//mutant:do min-members return true
	if len(m.state.Members) < m.cfg.MinMembers {
		return false
	}
	for _, least := range m.cfg.MinOfRole {
		n := 0
		for _, mem := range m.state.Members {
			if mem.HasRole(least.Role) {
				n++
			}
		}
		if n < least.Members {
			return false
		}
	}
	return true
}

// remove removes a member without waiting for anybody's agreement.
func (m *Machine) remove(n sharding.NodeID) {
	if m.phase != member {
		return
	}
	if n == m.self {
		m.down([]sharding.NodeID{n}, "removed on this node")
		return
	}
	if _, ok := m.state.Member(n); !ok {
		return
	}
	m.change(m.state.without(n))
	m.send(n, NotMember{Seniority: m.state.seniority()})
}

// leaveNode passes an operator's request to the node that is to leave.
func (m *Machine) leaveNode(n sharding.NodeID) {
	if n == m.self {
		m.leaveRequest(n)
	} else if _, ok := m.state.Member(n); ok && m.phase == member {
		m.send(n, LeaveRequest{})
	}
}

// leaveRequest tells the driver once that this node is to leave.
func (m *Machine) leaveRequest(by sharding.NodeID) {
	if _, ok := m.state.Member(by); !ok || m.leaveAsked || m.phase != member {
		return
	}
	m.leaveAsked = true
	m.emit(LeaveRequested{by})
}

func (m *Machine) leave() {
	switch m.phase {
	case idle, seeking:
		m.stop(Left{})
	case member:
		self, ok := m.state.Member(m.self)
		if ok && self.Status.CanBecome(Leaving) {
			leaving := *self
			leaving.Status = Leaving
			m.change(m.state.with(leaving))
		}
	}
}

// depart stops this node in time if it is on its way out.
func (m *Machine) depart() {
	if m.phase != member {
		return
	}
	switch m.status() {
	case Leaving:
		if m.leaveAt.IsZero() {
			m.leaveAt = m.now.Add(m.cfg.LeaveTimeout)
		} else if !m.now.Before(m.leaveAt) {
			m.stop(Left{Alone: true})
		}
	case Exiting:
		m.exit()
	}
}

// exit waits for the removal of this node once everybody knows that it is
// exiting.
func (m *Machine) exit() {
	if m.exitAt.IsZero() {
		m.exitAt = m.now.Add(m.cfg.ExitTimeout)
	}
	if len(m.state.Members) == 1 || !m.now.Before(m.exitAt) {
		m.stop(Left{})
		return
	}
	for _, n := range m.candidates(exitNotices) {
		m.send(n, ExitingConfirmed{})
	}
}

// candidates are the reachable members that come first in the order of leaders.
func (m *Machine) candidates(most int) []sharding.NodeID {
	mine := m.state.Reach.verdictsBy(m.self)
	var line []*Member
	for _, mem := range m.state.Members {
		if mem.Node != m.self && verdictIn(mine, mem.Node) == Reachable {
			line = append(line, mem)
		}
	}
	slices.SortFunc(line, byLeaderRank)
	var out []sharding.NodeID
	for _, mem := range line[:min(most, len(line))] {
		out = append(out, mem.Node)
	}
	return out
}

func (m *Machine) exitingConfirmed(from sharding.NodeID) {
	if m.phase != member || m.rejectExcluded(from) {
		return
	}
	if mem, ok := m.state.Member(from); ok && mem.Status == Exiting && !slices.Contains(m.confirmedExits, from) {
		m.confirmedExits = append(m.confirmedExits, from)
		slices.SortFunc(m.confirmedExits, sharding.NodeID.Compare)
	}
}
