package gossip

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// downTold is how many members hear it from a node itself that it is down,
// before it stops.
const downTold = 5

// autoDown asks the downing provider while anybody is unreachable.
func (m *Machine) autoDown() {
	if m.phase != member || m.cfg.Downing == nil {
		return
	}
	if slices.ContainsFunc(m.peers, func(p peer) bool { return p.unreachable }) {
		m.down(m.cfg.Downing.Decide(m.now, m.View()))
	}
}

// down declares members gone for good, and tells them. This node itself comes
// last.
func (m *Machine) down(nodes []sharding.NodeID) {
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
	m.change(s)
	for _, n := range told {
		if n != m.self {
			m.send(n, NotMember{Claim: m.state.claim()})
		}
	}
	if m.status() == Down {
		m.tellDown()
		m.stop(SelfDowned{"declared down on this node"})
	}
}

func (m *Machine) tellDown() {
	for i := 0; i < downTold; i++ {
		to, ok := m.nextTarget()
		if !ok {
			return
		}
		m.cursor = to
		m.send(to, Gossip{m.state})
	}
}

// lead moves members on, if this node is the leader and all is converged.
func (m *Machine) lead() {
	if m.phase != member || m.state.leader(m.self) != m.self || !m.state.converged(m.self, m.confirmed) {
		return
	}
	s := m.state
	up := s.youngest()
	var removed []sharding.NodeID
	changed := false
	for _, mem := range m.state.Members { // by address, so up numbers are too
		switch mem.Status {
		case Joining:
			up++
			mem.Status, mem.UpNumber = Up, up
		case Leaving:
			mem.Status = Exiting
		case Exiting, Down:
			if mem.Node != m.self && (slices.Contains(m.confirmed, mem.Node) || s.verdict(mem.Node) != Reachable) {
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
		s = s.without(removed, m.now.UnixMilli())
	}
	if !changed && len(removed) == 0 {
		return
	}
	m.change(s)
	for _, n := range removed {
		m.send(n, NotMember{Claim: m.state.claim()})
	}
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

// exit waits for the removal of this node once everybody knows that it is
// exiting.
func (m *Machine) exit() {
	if m.phase != member || m.status() != Exiting {
		return
	}
	if m.exitAt.IsZero() {
		m.exitAt = m.now.Add(m.cfg.ExitTimeout)
	}
	if len(m.peers) == 0 || !m.now.Before(m.exitAt) {
		m.stop(Left{})
		return
	}
	for i := range m.peers {
		if m.state.Reach.Of(m.self, m.peers[i].node) == Reachable {
			m.send(m.peers[i].node, ExitingConfirmed{})
		}
	}
}

func (m *Machine) exitingConfirmed(from sharding.NodeID) {
	if m.phase != member || m.disown(from) {
		return
	}
	if mem, ok := m.state.Member(from); ok && mem.Status == Exiting && !slices.Contains(m.confirmed, from) {
		m.confirmed = append(m.confirmed, from)
		slices.SortFunc(m.confirmed, sharding.NodeID.Compare)
	}
}
