package gossip

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// View is the membership as one node sees it at one moment. It is a copy and
// may be kept; the role lists in it must not be changed.
type View struct {
	// Self is the node whose view this is.
	Self sharding.NodeID
	// InCluster is true if the node is a member: false before it was admitted and after it left or was
	// downed.
	InCluster bool
	Cluster   Founding
	// Members are sorted by node, Self included.
	Members []MemberView
	// Refusal is the last reason for not admitting this node; empty once it is a
	// member.
	Refusal string
	// Removed are the tombstones of former members. Banned are the other
	// incarnations that this node refuses permanently. The lists must not be changed.
	Removed []Tombstone
	Banned  []Ban
	// Leader is the current leader in the eyes of this node; zero if none.
	Leader sharding.NodeID
	// Converged is true if every relevant member is reachable and known to have seen exactly this state.
	// Members that are up or leaving are relevant; while there are none, all that are not down.
	Converged bool
	// Observations name the members that observe others as unreachable, except observers that are down:
	// sorted by observer, then by subject.
	Observations []Observation
	// Lease is the driver's last report on the lease.
	Lease Lease
	// Paused is the total time that this process was found paused since it started. During that time it
	// could not hear other nodes.
	Paused time.Duration
	// Version counts the changes that the view includes, by the node that made
	// them: of two views of a cluster the later one has the higher counts.
	Version Clock
}

// Observation reports that one member observes another as unreachable.
type Observation struct{ Observer, Subject sharding.NodeID }

// MemberView is a member and its reachability.
type MemberView struct {
	Member
	// Phi is how strongly the viewing node suspects this member now, by its own
	// heartbeats: 0 is not at all, the threshold and above is unreachable; see
	// package phi. It is 0 for members that the node does not watch, and for
	// itself.
	Phi float64
	// Reachable is false when any member that is not down observes this one as
	// unreachable.
	Reachable bool
	// ReachableByMe is false when the viewing node itself observes it as
	// unreachable.
	ReachableByMe bool
	// UnreachableSince is the time at which the viewing node noticed that
	// Reachable became false, moved by its own pauses since; zero if Reachable.
	UnreachableSince time.Time
	// Seen is true if the member is known to hold exactly this state.
	Seen bool
}

// Member finds a member by node.
func (v View) Member(n sharding.NodeID) (MemberView, bool) {
	i, ok := slices.BinarySearchFunc(v.Members, n, func(m MemberView, n sharding.NodeID) int { return m.Node.Compare(n) })
	if !ok {
		return MemberView{}, false
	}
	return v.Members[i], true
}

// OldestFirst lists the members that are up and have a role (any member has
// the role ""), in the order in which they came up.
func (v View) OldestFirst(role string) []MemberView {
	var out []MemberView
	for _, m := range v.Members {
		if m.Status == Up && m.HasRole(role) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b MemberView) int { return a.byAge(&b.Member) })
	return out
}

// Rank is the number of members before a node in [View.OldestFirst], without those that cannot be
// reached and without the node except. For a node that is not in that list, it is the length of the list.
func (v View) Rank(role string, n, except sharding.NodeID) int {
	all, rank := v.OldestFirst(role), 0
	for i := range all {
		if all[i].Node == n {
			return rank
		}
		if all[i].Reachable && all[i].Node != except {
			rank++
		}
	}
	return len(all)
}

// Events lists the events that lead from an empty view to this one.
func (v View) Events() []Event {
	var out []Event
	for _, m := range v.Members {
		out = append(out, memberEvent(m.Member))
	}
	for _, m := range v.Members {
		if !m.ReachableByMe {
			out = append(out, ReachabilityChanged{Node: m.Node, ByMe: true})
		}
		if !m.Reachable {
			out = append(out, ReachabilityChanged{Node: m.Node})
		}
	}
	if !v.Leader.IsZero() {
		out = append(out, LeaderChanged{v.Leader})
	}
	return out
}

// View is the membership as this node sees it now.
func (m *Machine) View() View {
	v := View{Self: m.self, InCluster: m.phase == member, Cluster: m.state.Cluster, Version: m.state.Version, Lease: m.lease, Paused: m.paused}
	v.Refusal, v.Removed, v.Banned = m.refusal, m.state.Tombstones, slices.Clone(m.banned)
	if len(m.state.Members) == 0 {
		return v
	}
	v.Leader = m.leader()
	v.Converged = m.state.converged(m.self, m.confirmedExits, m.suspects)
	v.Members = make([]MemberView, 0, len(m.state.Members))
	peers := m.peers // sorted by node
	for _, i := range m.placesByNode() {
		mem := m.state.Members[i]
		mv := MemberView{Member: *mem, Reachable: true, ReachableByMe: true, Seen: m.state.Seen.Has(int(i))}
		for len(peers) > 0 && peers[0].node.Compare(mem.Node) < 0 {
			peers = peers[1:]
		}
		if len(peers) > 0 && peers[0].node == mem.Node {
			mv.Phi = peers[0].detector.Phi(m.now)
		}
		if at, ok := slices.BinarySearchFunc(m.publishedSuspects, mem.Node, compareSuspect); ok && mem.Node != m.self {
			x := &m.publishedSuspects[at]
			mv.Reachable, mv.ReachableByMe = x.forCluster == Reachable, x.mine == Reachable
			mv.UnreachableSince = m.unreachableSince[at]
		}
		v.Members = append(v.Members, mv)
	}
	v.Observations = m.state.observations()
	return v
}

// placesByNode are the places of the members in the state, sorted by node.
func (m *Machine) placesByNode() []int32 {
	if m.sortedPlaces == nil {
		m.sortedPlaces = make([]int32, len(m.state.Members))
		for i := range m.sortedPlaces {
			m.sortedPlaces[i] = int32(i)
		}
		slices.SortFunc(m.sortedPlaces, func(a, b int32) int { return m.state.Members[a].Node.Compare(m.state.Members[b].Node) })
	}
	return m.sortedPlaces
}

// observations lists which members observe which others as unreachable.
func (s *State) observations() []Observation {
	var out []Observation
	for _, obs := range s.Reach {
		for _, r := range obs.Verdicts {
			if r.Verdict != Reachable && s.observes(obs.Node) {
				out = append(out, Observation{obs.Node, r.Subject})
			}
		}
	}
	slices.SortFunc(out, func(a, b Observation) int {
		return cmp.Or(a.Observer.Compare(b.Observer), a.Subject.Compare(b.Subject))
	})
	return out
}

// observes reports whether a node's observations count: not after it is down.
func (s *State) observes(n sharding.NodeID) bool {
	m, ok := s.Member(n)
	return ok && m.Status != Down
}

// verdict is the worst verdict about a node of the members that are not down.
func (s *State) verdict(n sharding.NodeID) Verdict { return s.Reach.Aggregate(n, s.observes) }

// leader is the first by address of the members that are up or leaving and not
// unreachable; if there is none, the first of the others by status and
// address. A node always counts itself as reachable.
func (s *State) leader(self sharding.NodeID, suspects []suspect) sharding.NodeID {
	var best *Member
	for _, m := range s.Members {
		if (best == nil || byLeaderRank(m, best) < 0) && m.mayLead(self, suspects) {
			best = m
		}
	}
	if best == nil {
		return sharding.NodeID{}
	}
	return best.Node
}

// converged reports whether the leader may act: every member that is up or
// leaving has seen this state, and no member is unreachable unless it is down or
// exiting. While no member is up or leaving, all that are not down must have seen
// the state. Members that confirmed their exit do not matter any more.
func (s *State) converged(self sharding.NodeID, confirmed []sharding.NodeID, suspects []suspect) bool {
	for _, x := range suspects {
		if x.forCluster == Reachable || x.node == self || slices.Contains(confirmed, x.node) {
			continue
		}
		if m, ok := s.Member(x.node); ok && m.Status != Down && m.Status != Exiting {
			return false
		}
	}
	up := func(m *Member) bool { return m.Status == Up || m.Status == Leaving }
	anybodyUp := false
	for _, m := range s.Members {
		anybodyUp = anybodyUp || up(m)
	}
	for i, m := range s.Members {
		matters := up(m) || !anybodyUp && m.Status != Down
		if matters && !s.Seen.Has(i) && !slices.Contains(confirmed, m.Node) {
			return false
		}
	}
	return true
}

// Seniority describes the cluster of a node that meets another cluster, or another
// half of its own. The senior side wins, and the nodes of the other side stop.
type Seniority struct {
	Cluster Founding
	Era     Era
	// Oldest is the oldest member that is not down, by up number and node.
	// Halves of one cluster that downed each other have different ones.
	OldestUp   uint32
	OldestNode sharding.NodeID
}

// Senior reports whether c wins over o. The older cluster wins; within one cluster
// the side in the later era does, then the one that has the oldest member. Of two equal ones
// neither is senior.
func (c Seniority) Senior(o Seniority) bool {
	if d := c.Cluster.Compare(o.Cluster); d != 0 {
		return d < 0
	}
	if d := c.Era.Compare(o.Era); d != 0 {
		return d > 0
	}
	a, b := Member{UpNumber: c.OldestUp, Node: c.OldestNode}, Member{UpNumber: o.OldestUp, Node: o.OldestNode}
	return a.OlderThan(&b)
}

func (s *State) seniority() Seniority {
	var oldest *Member
	for _, m := range s.Members {
		if m.Status != Down && (oldest == nil || m.OlderThan(oldest)) {
			oldest = m
		}
	}
	c := Seniority{Cluster: s.Cluster, Era: s.Era}
	if oldest != nil {
		c.OldestUp, c.OldestNode = oldest.UpNumber, oldest.Node
	}
	return c
}
