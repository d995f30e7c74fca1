package gossip

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/vclock"
)

// round gossips with one member when it is time.
func (m *Machine) round() {
	if m.phase != member || m.now.Before(m.nextGossip) {
		return
	}
	m.nextGossip = m.now.Add(m.cfg.GossipInterval)
	if m.busy() {
		m.nextGossip = m.now.Add(m.cfg.BusyInterval)
	}
	if to, ok := m.nextTarget(); ok {
		m.cursor = to
		m.sendStatus(to)
	}
}

// busy tells whether there is news to spread.
func (m *Machine) busy() bool {
	return slices.ContainsFunc(m.state.Members, func(mem Member) bool {
		return mem.Status == Down || !m.state.HasSeen(mem.Node)
	})
}

// nextTarget goes round the members that can be reached, those first that have
// not seen the state.
func (m *Machine) nextTarget() (sharding.NodeID, bool) {
	start, _ := slices.BinarySearchFunc(m.state.Members, m.cursor, memberOf)
	var fallback sharding.NodeID
	n := len(m.state.Members)
	for i := 1; i <= n; i++ {
		mem := &m.state.Members[(start+i)%n]
		if mem.Node == m.self || mem.Status == Down || m.state.Reach.Of(m.self, mem.Node) != Reachable {
			continue
		}
		if !m.state.HasSeen(mem.Node) {
			return mem.Node, true
		}
		if fallback.IsZero() {
			fallback = mem.Node
		}
	}
	return fallback, !fallback.IsZero()
}

func (m *Machine) sendStatus(to sharding.NodeID) {
	m.send(to, GossipStatus{m.state.Cluster, m.state.Version, m.digest, m.state.Seen})
}

// stranger deals with gossip from outside: of an outcast, or another cluster.
func (m *Machine) stranger(from sharding.NodeID, cluster ClusterID) bool {
	if m.phase != member {
		return true
	}
	if cluster != m.state.Cluster {
		m.send(from, NotMember{Claim: m.state.claim()})
		return true
	}
	return m.disown(from)
}

func (m *Machine) gossipStatus(from sharding.NodeID, msg *GossipStatus) {
	if !strictlySorted(msg.Seen, sharding.NodeID.Compare) || !msg.Version.Valid() {
		m.emit(Refused{from, "gossip status: not sorted"})
		return
	}
	if m.stranger(from, msg.Cluster) {
		return
	}
	switch {
	case msg.Digest == m.digest:
		m.sameState(from, msg.Version, msg.Seen)
	case msg.Version.Compare(m.state.Version) == vclock.After:
		m.sendStatus(from) // it sees that we need its state
	default:
		m.send(from, Gossip{m.state})
	}
}

// sameState learns who else has seen the state, and tells the sender if we
// know of more.
func (m *Machine) sameState(from sharding.NodeID, version Clock, seen []sharding.NodeID) {
	s := m.state
	s.Version = s.Version.Merge(version)
	s.Seen = union(seen, union(s.Seen, []sharding.NodeID{from}))
	m.state = s.withoutRemoved()
	if slices.ContainsFunc(m.state.Seen, func(n sharding.NodeID) bool { return n != from && !slices.Contains(seen, n) }) {
		m.sendStatus(from)
	}
}

func (m *Machine) gossip(from sharding.NodeID, theirs *State) {
	if why := theirs.check(m.cfg.MaxMembers); why != "" {
		m.emit(Refused{from, "gossip: " + why})
		return
	}
	if m.stranger(from, theirs.Cluster) {
		return
	}
	if _, ok := theirs.Member(from); !ok {
		return // it has been removed and does not know yet that we know
	}
	limit, most := m.tombstoneLimit(), m.cfg.MaxTombstones
	fresh, forgot := theirs.pruneTombstones(limit, most)
	joined := m.state.join(&fresh)
	joined, forgotMore := joined.pruneTombstones(limit, most)
	mine, both, before := m.digest, joined.digest(), fresh.digest()
	switch {
	case both == mine && both == before:
		m.sameState(from, theirs.Version, theirs.Seen)
		return
	case both == mine:
	case both == before:
		m.take(joined, union(theirs.Seen, union([]sharding.NodeID{m.self}, []sharding.NodeID{from})))
	default:
		m.take(joined, []sharding.NodeID{m.self})
	}
	switch {
	case m.phase != member || forgot || forgotMore:
		// Two nodes that forget removed nodes at different times cannot agree
		// until both did: no answer, or they would answer each other for ever.
	case both == before:
		m.sendStatus(from) // so that it knows that we have seen it
	default:
		m.send(from, Gossip{m.state}) // it lacks something
	}
}

// take takes over a state that came from others, and stops if it says that
// this node is no member any more.
func (m *Machine) take(s State, seen []sharding.NodeID) {
	exiting := m.status() == Exiting
	s.Seen = seen
	m.setState(s.withoutRemoved())
	m.nextGossip = m.now
	self, ok := m.state.Member(m.self)
	switch {
	case !ok && exiting:
		m.stop(Left{})
	case !ok:
		m.stop(SelfDowned{"removed from the cluster"})
	case self.Status == Down:
		m.stop(SelfDowned{"declared down"})
	}
}

// status is this node's own, 0 if it is no member.
func (m *Machine) status() Status {
	if self, ok := m.state.Member(m.self); ok {
		return self.Status
	}
	return 0
}

func (m *Machine) tombstoneLimit() int64 { return m.now.Add(-m.cfg.TombstoneTTL).UnixMilli() }

// prune forgets nodes that were removed long ago. Everybody does so at about
// the same time, so it is no change to tell others about.
func (m *Machine) prune() {
	if s, pruned := m.state.pruneTombstones(m.tombstoneLimit(), m.cfg.MaxTombstones); pruned {
		s.Seen = []sharding.NodeID{m.self}
		m.setState(s)
	}
}
