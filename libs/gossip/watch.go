package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/pace"
	"github.com/roost-cluster/roost/libs/phi"
	"github.com/roost-cluster/roost/libs/sharding"
)

// peer holds this node's own knowledge about a member that it watches.
type peer struct {
	node     sharding.NodeID
	detector phi.Detector
	// Numbers of heartbeats: the first one sent since the peer is known, the
	// last one answered, the last one before evidence that it is gone.
	firstSeq, lastSeq, goneSeq uint64
	gone                       bool // evidence, and no newer reply
	repeated                   bool // the last answer has counted twice, see answeredAgain
	// The number of the peer's newest heartbeat that is answered with those to it; 0: none.
	heardSeq uint64
	// Until when a node outside the ring is watched because a joiner wants to join at its address.
	askedUntil time.Time
}

func comparePeer(p peer, n sharding.NodeID) int { return p.node.Compare(n) }

func (m *Machine) peer(n sharding.NodeID) *peer {
	i, ok := slices.BinarySearchFunc(m.peers, n, comparePeer)
	if !ok {
		return nil
	}
	return &m.peers[i]
}

// peersAt are the watched members at an address.
func (m *Machine) peersAt(addr string) []peer {
	at, _ := slices.BinarySearchFunc(m.peers, sharding.NodeID{Addr: addr}, comparePeer)
	n := at
	for n < len(m.peers) && m.peers[n].node.Addr == addr {
		n++
	}
	return m.peers[at:n]
}

// watch begins to watch a member, if it is not watched already.
func (m *Machine) watch(n sharding.NodeID) *peer {
	i, ok := slices.BinarySearchFunc(m.peers, n, comparePeer)
	if !ok {
		m.peers = slices.Insert(m.peers, i, peer{node: n, detector: m.cfg.Watch.detector()})
	}
	return &m.peers[i]
}

// watchAt begins to watch all members at an address.
func (m *Machine) watchAt(addr string) {
	for _, mem := range m.state.membersAt(addr) {
		if mem.Node != m.self {
			m.watch(mem.Node)
		}
	}
}

// rewatch adapts the peers to the membership: they are the receivers of this node
// on the ring, and the members of roles that it always watches.
//
// Former receivers remain peers while this node observes them as unreachable, or
// is about to: no other node can withdraw its observation.
func (m *Machine) rewatch() {
	wanted := m.state.receivers(m.self, m.cfg.MonitoredBy, m.suspects)
	m.receiversEnd = ringEnd(m.self, m.cfg.MonitoredBy, wanted, m.suspects)
	if len(m.cfg.WatchRoles) > 0 {
		for _, mem := range m.state.Members {
			if mem.Node != m.self && slices.ContainsFunc(m.cfg.WatchRoles, mem.HasRole) {
				wanted = append(wanted, mem.Node)
			}
		}
		slices.SortFunc(wanted, sharding.NodeID.Compare)
	}
	m.watchingFormerReceivers = false
	m.peers = slices.DeleteFunc(m.peers, func(p peer) bool {
		if _, ok := slices.BinarySearchFunc(wanted, p.node, sharding.NodeID.Compare); ok {
			return false
		}
		if _, ok := m.state.Member(p.node); !ok || !m.keepWatching(&p) {
			return true
		}
		m.watchingFormerReceivers = true
		return false
	})
	for _, n := range wanted {
		m.watch(n)
	}
}

// affectsPeers reports whether the peers of this node may change when a node
// joins, goes, or changes its reachability.
func (m *Machine) affectsPeers(n sharding.NodeID) bool {
	return len(m.cfg.WatchRoles) > 0 || distance(m.self, n) <= m.receiversEnd || m.peer(n) != nil
}

func (m *Machine) keepWatching(p *peer) bool {
	if m.now.Before(p.askedUntil) {
		return true
	}
	// Invariant: if a suspect is no longer a neighbour of a node on the ring, the node continues to watch this suspect.
	// Mutants: former-receivers
	//mutant:false former-receivers
	return p.gone || m.state.Reach.Of(m.self, p.node) != Reachable || !p.detector.Available(m.now)
}

// sendHeartbeats sends a heartbeat to every peer when it is time.
func (m *Machine) sendHeartbeats() {
	if m.phase != member || m.now.Before(m.nextHeartbeat) {
		return
	}
	m.nextHeartbeat = pace.NextAligned(m.now, m.cfg.Watch.Interval)
	if m.watchingFormerReceivers {
		m.rewatch()
	}
	m.updateLocalHealth()
	m.seq++
	mine := m.state.Reach.verdictsBy(m.self)
	for i := range m.peers {
		switch p := &m.peers[i]; {
		case verdictIn(mine, p.node) == Terminated:
		case verdictIn(mine, p.node) == Reachable && !p.gone:
			m.sendHeartbeat(p, m.cfg.Watch.Interval)
		default:
			m.sendHeartbeat(p, 0) // it may be back: the sooner it shows, the better
		}
	}
}

// sendHeartbeat sends one heartbeat. The first one counts as answered, so that
// a node that never answers is noticed too.
func (m *Machine) sendHeartbeat(p *peer, patience time.Duration) {
	if p.firstSeq == 0 {
		p.firstSeq = m.seq
		p.detector.Heartbeat(m.now)
	}
	m.send(p.node, Heartbeat{Seq: m.seq, Patience: patience, Answer: p.heardSeq})
}

// heartbeat answers a heartbeat, and takes the answer that it brings. Two members that watch each other need half as
// many messages if their own heartbeats are the answers.
func (m *Machine) heartbeat(from sharding.NodeID, msg Heartbeat) {
	if msg.Answer != 0 {
		m.answeredAgain(from, msg.Answer)
		m.answered(from, msg.Answer)
	}
	if m.rejectExcluded(from) {
		return
	}
	p := m.peer(from)
	if p != nil && msg.Patience >= m.cfg.Watch.Interval && !p.gone && m.state.Reach.Of(m.self, from) == Reachable {
		p.heardSeq = max(p.heardSeq, msg.Seq)
		return
	}
	if p != nil {
		p.heardSeq = 0
	}
	m.send(from, HeartbeatReply{msg.Seq})
}

// answeredAgain takes an answer that a heartbeat repeats. A heartbeat of this node that has just missed one of the
// peer's is answered with the next, so that an interval may be without a new answer. Therefore each may count a
// second time, and no more: a peer that does not hear this node any more repeats the same answer forever. What
// arrives together counts once: otherwise heartbeats would look less regular than they are.
func (m *Machine) answeredAgain(from sharding.NodeID, seq uint64) {
	p := m.peer(from)
	//mutant:false answered-again p.repeated
	if p == nil || seq != p.lastSeq || p.gone || p.repeated || m.silence(p) < m.cfg.Watch.Interval/2 {
		return
	}
	p.repeated = true
	p.detector.Heartbeat(m.now)
}

// silence is the time since a peer last gave a sign of life that counted.
func (m *Machine) silence(p *peer) time.Duration { return m.now.Sub(p.detector.Last()) }

// maxLocalHealth is the worst local health; 0 is the best.
const maxLocalHealth = 8

// updateLocalHealth counts the peers that have not answered lately. When most
// of the healthy ones fall silent at once, this node is more likely to be the
// cause than they are: it may be starved of CPU time, or cut off. It then
// suspects itself first and gives its peers more time, up to three times the
// pause of the profile. With only one or two peers it cannot tell.
//
// The idea and the measure are Lifeguard's local health multiplier (Dadgar,
// Phillips, Currey 2017, arXiv 1707.00788).
func (m *Machine) updateLocalHealth() {
	watched, silent := 0, 0
	mine := m.state.Reach.verdictsBy(m.self)
	for i := range m.peers {
		p := &m.peers[i]
		if p.firstSeq == 0 || p.gone || verdictIn(mine, p.node) != Reachable {
			continue
		}
		watched++
		if m.silence(p) > m.cfg.Watch.Interval*3/2 {
			silent++
		}
	}
	m.localHealth = min(max(m.localHealth+2*silent-watched, 0), maxLocalHealth)
	// Invariant: if a node is itself slow, the node waits longer before suspecting others.
	// Mutants: local-health
	if watched < 3 { //mutant:true local-health
		m.localHealth = 0
	}
}

// extraPause is added to the pause that the detectors accept.
func (m *Machine) extraPause() time.Duration {
	return m.cfg.Watch.Phi.Pause * time.Duration(2*m.localHealth) / maxLocalHealth
}

// answered takes the answer to the heartbeat with a number.
func (m *Machine) answered(from sharding.NodeID, seq uint64) {
	if m.phase != member || seq > m.seq {
		return
	}
	if p := m.peer(from); p != nil && p.firstSeq != 0 && seq >= p.firstSeq && seq > p.lastSeq && seq > p.goneSeq {
		p.lastSeq, p.gone, p.repeated = seq, false, false
		p.detector.Heartbeat(m.now)
	}
	m.settleDisputes(from, seq)
	// The incarnation that answers has lived at its address at least since the
	// heartbeat was sent. Any other member at that address is gone, if it was known
	// by then and has not answered anything newer. There may be several, one of
	// them already known to be gone.
	for _, p := range slices.Clone(m.peersAt(from.Addr)) {
		if p.node.UID != from.UID && p.firstSeq != 0 && seq >= p.firstSeq && seq > p.lastSeq {
			m.downReplaced(p.node, from)
		}
	}
}

// downReplaced downs an incarnation that is proven gone because another one
// answered at its address.
func (m *Machine) downReplaced(old, by sharding.NodeID) {
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

// evidence marks a member as gone because the driver says so, until it answers a
// heartbeat sent later.
func (m *Machine) evidence(n sharding.NodeID) {
	if m.phase != member {
		return
	}
	m.watchAt(n.Addr)
	at := m.peersAt(n.Addr)
	for i := range at {
		p := &at[i]
		if (n.UID == 0 || p.node.UID == n.UID) && !p.gone {
			p.gone, p.goneSeq = true, m.seq
			m.emit(NodeGone{p.node})
		}
	}
	m.watchingFormerReceivers = true // some of them may be outside the ring
	m.updateReachability()
}

// updateReachability brings this node's observations in line with its detectors.
func (m *Machine) updateReachability() {
	if m.phase != member {
		return
	}
	patient := m.now.Add(-m.extraPause())
	mine := m.state.Reach.verdictsBy(m.self)
	s := m.state
	changed := false
	for i := range m.peers {
		p := &m.peers[i]
		was, at := verdictIn(mine, p.node), patient
		if was != Reachable {
			at = m.now // without the extra pause: only a reply makes it reachable
		}
		verdict := Reachable
		if p.gone || !p.detector.Available(at) {
			verdict = Unreachable
		}
		if was != verdict && was != Terminated {
			s.Reach = s.Reach.Set(m.self, p.node, verdict)
			changed = true
		}
	}
	if changed {
		m.change(s)
	}
}
