package gossip

import "github.com/roost-cluster/roost/libs/sharding"

// beat asks every other member for a sign of life when it is time.
func (m *Machine) beat() {
	if m.phase != member || m.now.Before(m.nextBeat) {
		return
	}
	m.nextBeat = m.now.Add(m.cfg.Watch.Interval)
	m.seq++
	for i := range m.peers {
		if p := &m.peers[i]; m.state.Reach.Of(m.self, p.node) != Terminated {
			m.beatTo(p)
		}
	}
}

// beatTo sends one heartbeat. The first one counts as answered, so that
// a node that never answers is noticed too.
func (m *Machine) beatTo(p *peer) {
	if p.firstSeq == 0 {
		p.firstSeq = m.seq
		p.detector.Heartbeat(m.now)
	}
	m.send(p.node, Heartbeat{m.seq})
}

func (m *Machine) heartbeatReply(from sharding.NodeID, seq uint64) {
	if m.phase != member || seq > m.seq {
		return
	}
	if p := m.peer(from); p != nil && p.firstSeq != 0 && seq >= p.firstSeq && seq > p.lastSeq && seq > p.goneSeq {
		p.lastSeq, p.gone = seq, false
		p.detector.Heartbeat(m.now)
	}
	// Whoever answers at an address is the incarnation that lives there, at
	// least since the heartbeat it answers was sent. A member at the same
	// address that was known by then and has answered nothing newer is gone.
	for i := range m.peers {
		p := &m.peers[i]
		if p.node.Addr == from.Addr && p.node.UID != from.UID && p.firstSeq != 0 && seq >= p.firstSeq && seq > p.lastSeq {
			m.replaced(p.node, from)
			return
		}
	}
}

// replaced downs an incarnation that is proven gone.
func (m *Machine) replaced(old, by sharding.NodeID) {
	mem, ok := m.state.Member(old)
	if !ok || m.state.Reach.Of(m.self, old) == Terminated {
		return
	}
	downed := *mem
	downed.Status = Down
	s := m.state.with(downed)
	s.Reach = s.Reach.Set(m.self, old, Terminated)
	m.change(s)
	m.emit(NewIncarnation{Old: old, New: by})
}

// evidence takes the driver's word that a member's process is gone, until it
// answers a heartbeat sent after that.
func (m *Machine) evidence(n sharding.NodeID) {
	if m.phase != member {
		return
	}
	for i := range m.peers {
		p := &m.peers[i]
		if p.node.Addr == n.Addr && (n.UID == 0 || p.node.UID == n.UID) && !p.gone {
			p.gone, p.goneSeq = true, m.seq
			m.emit(NodeGone{p.node})
		}
	}
	m.reap()
}

// reap brings this node's observations in line with its detectors.
func (m *Machine) reap() {
	if m.phase != member {
		return
	}
	s := m.state
	changed := false
	for i := range m.peers {
		p := &m.peers[i]
		verdict := Reachable
		if p.gone || !p.detector.Available(m.now) {
			verdict = Unreachable
		}
		if was := s.Reach.Of(m.self, p.node); was != verdict && was != Terminated {
			s.Reach = s.Reach.Set(m.self, p.node, verdict)
			changed = true
		}
	}
	if changed {
		m.change(s)
	}
}
