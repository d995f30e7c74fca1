package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants that hold after every step.
func (m *Machine) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	s := &m.state
	if m.phase != member {
		return nil // there is no state yet, or none that matters
	}
	if why := s.check(m.cfg.MaxMembers + m.cfg.MaxTombstones); why != "" {
		bad("state: %s", why)
	}
	if s.sums() != m.sums || m.sums.digest(s.Cluster, s.Era) != m.digest {
		bad("sums and digest do not match the state")
	}
	if clean := s.withoutRemoved(); clean.digest() != m.digest {
		bad("state holds traces of nodes that are not members")
	}
	if m.status() == 0 || m.status() == Down {
		bad("this node is %v, but still a member", m.status())
	}
	if !s.HasSeen(m.self) || !s.Seen.Below(len(s.Members)) {
		bad("this node has not seen its own state, or too many have")
	}
	m.checkPeers(bad)
	if !slices.Equal(m.suspects, s.suspects(m.self)) {
		bad("suspects are %v, but %v by the state", m.suspects, s.suspects(m.self))
	}
	if l := s.leader(m.self, m.suspects); l != m.leader() {
		bad("%v leads, but %v by the state", m.leader(), l)
	}
	for _, mem := range s.Members {
		if mem.Status == Up && mem.UpNumber == 0 || mem.Status < Up && mem.UpNumber != 0 {
			bad("%v is %v with up number %d", mem.Node, mem.Status, mem.UpNumber)
		}
	}
	if len(s.Tombstones) > m.cfg.MaxTombstones+m.cfg.MaxMembers || len(m.banned) > m.cfg.MaxBanned || len(m.disputes) > maxDisputes {
		bad("%d tombstones, %d bans, %d disputes", len(s.Tombstones), len(m.banned), len(m.disputes))
	}
	return errors.Join(errs...)
}

// checkPeers verifies that this node watches the members that it should. It must
// watch those it observes as unreachable, to notice when they are reachable
// again.
func (m *Machine) checkPeers(bad func(string, ...any)) {
	if !slices.IsSortedFunc(m.peers, func(a, b peer) int { return a.node.Compare(b.node) }) {
		bad("peers are not sorted")
	}
	for i := range m.peers {
		n := m.peers[i].node
		if _, ok := m.state.Member(n); !ok || n == m.self {
			bad("%v is watched, but is this node or not a member", n)
		}
	}
	for _, n := range m.state.receivers(m.self, m.cfg.MonitoredBy, m.suspects) {
		if m.peer(n) == nil {
			bad("%v is not watched", n)
		}
	}
	for _, r := range m.state.Reach.verdictsBy(m.self) {
		if r.Verdict != Reachable && m.peer(r.Subject) == nil {
			bad("%v is observed as %v, and not watched", r.Subject, r.Verdict)
		}
	}
}

// Clone is an independent copy.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out = nil
	if m.downing != nil {
		c.downing = m.downing.Clone()
	}
	c.nacks, c.knownClusters = slices.Clone(m.nacks), slices.Clone(m.knownClusters)
	c.confirmedExits = slices.Clone(m.confirmedExits)
	c.banned, c.disputes = slices.Clone(m.banned), slices.Clone(m.disputes)
	c.unreachableSince = slices.Clone(m.unreachableSince)
	c.observed = m.observed.clone()
	c.peers = slices.Clone(m.peers)
	for i := range c.peers {
		c.peers[i].detector = m.peers[i].detector.Clone()
	}
	return &c // states are values
}

// AppendState appends the canonical form of the whole machine, with times
// relative to the time of the last step.
func (m *Machine) AppendState(b []byte) []byte {
	epoch := m.now.UnixMilli()
	since := func(t time.Time) {
		if t.IsZero() {
			b = append(b, 0)
			return
		}
		b = binary.AppendVarint(append(b, 1), int64(t.Sub(m.now)))
	}
	b = append(b, byte(m.phase))
	b = appendNode(b, m.self)
	for _, t := range []time.Time{
		m.lastTick, m.formAt, m.formAtIfNacked, m.lastHeardAt, m.joinTargetUntil, m.nextJoin, m.nextHeartbeat, m.nextGossip, m.relayAt, m.seekingSince, m.notConvergedSince, m.leaveAt, m.exitAt,
		m.nextDowning, m.eraSince,
	} {
		since(t)
	}
	b = binary.AppendUvarint(b, uint64(len(m.cfg.Seeds)))
	for _, s := range m.cfg.Seeds {
		b = sharding.AppendString(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(m.nacks)))
	for _, n := range m.nacks {
		b = sharding.AppendString(b, n)
	}
	b = binary.AppendUvarint(appendNode(b, m.joinTarget), m.heardIn)
	b = binary.AppendUvarint(b, uint64(len(m.knownClusters)))
	for _, h := range m.knownClusters {
		for _, n := range []uint64{uint64(h.cluster.Founded), uint64(h.cluster.Founder), h.era} {
			b = binary.AppendUvarint(b, n)
		}
	}
	b = m.state.appendContent(b, epoch)
	for _, e := range m.state.Version {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.Node)), e.Count)
	}
	b = append(b, m.state.Seen...)
	b = binary.AppendUvarint(b, uint64(len(m.confirmedExits)))
	for _, n := range m.confirmedExits {
		b = appendNode(b, n)
	}
	b = sharding.AppendString(sharding.AppendString(append(b, flag(m.leaveAsked)), m.viaAddr), m.refusal)
	b = binary.AppendUvarint(b, uint64(len(m.banned)))
	for _, q := range m.banned {
		b = sharding.AppendString(appendNode(b, q.Node), q.Reason)
		since(q.Since)
	}
	b = binary.AppendUvarint(b, uint64(len(m.disputes)))
	for _, d := range m.disputes {
		b = binary.AppendUvarint(appendNode(b, d.joiner), d.seq)
	}
	for _, n := range []uint64{m.seq, m.drawCount, uint64(m.localHealth)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, t := range m.unreachableSince {
		since(t)
	}
	for i := range m.peers {
		p := &m.peers[i]
		b = p.detector.AppendState(appendNode(b, p.node), m.now)
		for _, n := range []uint64{p.firstSeq, p.lastSeq, p.goneSeq, p.heardSeq} {
			b = binary.AppendUvarint(b, n)
		}
		b = append(b, flag(p.gone), flag(p.repeated))
		since(p.askedUntil)
	}
	b = appendNode(append(b, flag(m.hadUnreachable)), m.lease.Holder)
	since(m.lease.Until)
	if m.downing != nil {
		b = m.downing.AppendState(b, m.now)
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// Members is the number of members, as this node sees it now.
func (m *Machine) Members() int { return len(m.state.Members) }

// Era returns the era of the state that this node holds.
func (m *Machine) Era() Era { return m.state.Era }

// Digest returns the hash of the state that this node holds, 0 if there is none.
func (m *Machine) Digest() uint64 { return m.digest }

// Leader returns the current leader, as this node sees it.
func (m *Machine) Leader() sharding.NodeID { return m.leader() }

// Converged reports the same as View.Converged.
func (m *Machine) Converged() bool {
	return m.phase == member && m.state.converged(m.self, m.confirmedExits, m.suspects)
}

// Share lets this machine use the memory of another one that holds the same
// state, and reports whether it does. Nothing else changes. It saves memory where
// many machines run in one process, because most of them hold the same state.
func (m *Machine) Share(o *Machine) bool {
	if m.digest != o.digest || m.unpublished || o.unpublished {
		return false
	}
	seen := m.state.Seen
	m.state, m.published, m.sortedPlaces = o.state, o.published, o.sortedPlaces
	m.state.Seen = seen
	return true
}
