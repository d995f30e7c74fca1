package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Check verifies what must hold after every step.
func (m *Machine) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	s := &m.state
	if m.phase != member {
		return nil // nothing to hold before, nothing to hold on to after
	}
	if why := s.check(m.cfg.MaxMembers + m.cfg.MaxTombstones); why != "" {
		bad("state: %s", why)
	}
	if s.digest() != m.digest {
		bad("digest is not that of the state")
	}
	if clean := s.withoutRemoved(); clean.digest() != m.digest || len(clean.Seen) != len(s.Seen) || len(clean.Version) != len(s.Version) {
		bad("state holds traces of nodes that are no members")
	}
	if m.status() == 0 || m.status() == Down {
		bad("this node is %v, but still a member", m.status())
	}
	if !s.HasSeen(m.self) {
		bad("this node has not seen its own state")
	}
	if len(m.peers) != len(s.Members)-1 {
		bad("%d members have %d peers", len(s.Members), len(m.peers))
	}
	for i := range s.Members {
		mem := &s.Members[i]
		if mem.Node != m.self && m.peer(mem.Node) == nil {
			bad("%v has no peer", mem.Node)
		}
		if mem.Status == Up && mem.UpNumber == 0 || mem.Status == Joining && mem.UpNumber != 0 {
			bad("%v is %v with up number %d", mem.Node, mem.Status, mem.UpNumber)
		}
	}
	if len(s.Tombstones) > m.cfg.MaxTombstones {
		bad("%d tombstones", len(s.Tombstones))
	}
	return errors.Join(errs...)
}

// Clone is an independent copy. The downing provider is shared.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out = nil
	c.nacks = slices.Clone(m.nacks)
	c.confirmed = slices.Clone(m.confirmed)
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
	for _, t := range []time.Time{m.lastTick, m.formAt, m.nackedAt, m.targetBy, m.nextJoin, m.nextBeat, m.nextGossip, m.exitAt} {
		since(t)
	}
	b = binary.AppendUvarint(b, uint64(len(m.nacks)))
	for _, n := range m.nacks {
		b = appendString(b, n)
	}
	b = appendNode(appendNode(b, m.target), m.cursor)
	b = m.state.appendContent(b, epoch)
	for _, e := range m.state.Version {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.Node)), e.Count)
	}
	b = binary.AppendUvarint(b, uint64(len(m.state.Seen)))
	for _, n := range m.state.Seen {
		b = appendNode(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(m.confirmed)))
	for _, n := range m.confirmed {
		b = appendNode(b, n)
	}
	b = binary.AppendUvarint(b, m.seq)
	for i := range m.peers {
		p := &m.peers[i]
		b = p.detector.AppendState(appendNode(b, p.node), m.now)
		for _, n := range []uint64{p.firstSeq, p.lastSeq, p.goneSeq} {
			b = binary.AppendUvarint(b, n)
		}
		b = append(b, flag(p.gone), flag(p.unreachable), flag(p.unreachableByMe))
		since(p.unreachableSince)
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}
