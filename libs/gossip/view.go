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
	// InCluster tells whether the node is a member: false before it was let in
	// and after it left or was downed.
	InCluster bool
	Cluster   ClusterID
	// Members are sorted by node, Self included.
	Members []MemberView
	// Refusal is why this node was not let in when it asked last; empty once it is.
	Refusal string
	// Removed are the tombstones of those who were members, Quarantined the
	// others that this node refuses for good. The lists must not be changed.
	Removed     []Tombstone
	Quarantined []Quarantine
	// Leader is the node that this node takes for the leader; zero if none.
	Leader sharding.NodeID
	// Converged tells that everybody who matters is reachable and known to
	// have seen this very state.
	Converged bool
	// Observations are who observes whom as unreachable, without those of
	// members that are down: sorted by observer, then by subject.
	Observations []Observation
	// Lease is what this node was told last about who holds the lease.
	Lease Lease
	// Paused is how long this process was found paused in all since it
	// started. In that time it heard nobody.
	Paused time.Duration
	// Version counts the changes that the view includes, by who made them: of two
	// views of a cluster the later one has the higher counts.
	Version Clock
}

// Observation says that one member observes another as unreachable.
type Observation struct{ Observer, Subject sharding.NodeID }

// MemberView is a member and how it is reached.
type MemberView struct {
	Member
	// Phi is how strongly the viewing node suspects this member now, by its own
	// heartbeats: 0 is not at all, and unreachable is from the threshold on; see
	// package phi. 0 for members that it does not watch, itself among them.
	Phi float64
	// Reachable is false when any member that is not down observes this one as
	// unreachable.
	Reachable bool
	// ReachableByMe is false when the viewing node itself does.
	ReachableByMe bool
	// UnreachableSince is since when Reachable is false, as noticed by the
	// viewing node, its own pauses left out; zero if it is reachable.
	UnreachableSince time.Time
	// Seen tells that the member is known to hold exactly this state.
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

// Oldest is the first of [View.OldestFirst].
func (v View) Oldest(role string) (MemberView, bool) {
	if all := v.OldestFirst(role); len(all) > 0 {
		return all[0], true
	}
	return MemberView{}, false
}

// Rank is the place of a node in [View.OldestFirst], counted from 0, or the
// length of that list if it is not in it.
func (v View) Rank(role string, n sharding.NodeID) int {
	all := v.OldestFirst(role)
	for i := range all {
		if all[i].Node == n {
			return i
		}
	}
	return len(all)
}

// Events describes the view as if all of it had just happened.
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
	v.Refusal, v.Removed, v.Quarantined = m.refusal, m.state.Tombstones, slices.Clone(m.outlaws)
	if len(m.state.Members) == 0 {
		return v
	}
	v.Leader = m.leader()
	v.Converged = m.state.converged(m.self, m.confirmed, m.suspects)
	v.Members = make([]MemberView, 0, len(m.state.Members))
	peers := m.peers // sorted by node
	for _, i := range m.places() {
		mem := m.state.Members[i]
		mv := MemberView{Member: *mem, Reachable: true, ReachableByMe: true, Seen: m.state.Seen.Has(int(i))}
		for len(peers) > 0 && peers[0].node.Compare(mem.Node) < 0 {
			peers = peers[1:]
		}
		if len(peers) > 0 && peers[0].node == mem.Node {
			mv.Phi = peers[0].detector.Phi(m.now)
		}
		if at, ok := slices.BinarySearchFunc(m.toldSuspects, mem.Node, suspectOf); ok && mem.Node != m.self {
			x := &m.toldSuspects[at]
			mv.Reachable, mv.ReachableByMe = x.verdict == Reachable, x.mine == Reachable
			mv.UnreachableSince = m.since[at]
		}
		v.Members = append(v.Members, mv)
	}
	v.Observations = m.state.observations()
	return v
}

// places are those of the members, sorted by node.
func (m *Machine) places() []int32 {
	if m.inOrder == nil {
		m.inOrder = make([]int32, len(m.state.Members))
		for i := range m.inOrder {
			m.inOrder[i] = int32(i)
		}
		slices.SortFunc(m.inOrder, func(a, b int32) int { return m.state.Members[a].Node.Compare(m.state.Members[b].Node) })
	}
	return m.inOrder
}

// observations lists who observes whom as unreachable.
func (s *State) observations() []Observation {
	var out []Observation
	for _, row := range s.Reach {
		for _, r := range row.Records {
			if r.Verdict != Reachable && s.observes(row.Observer) {
				out = append(out, Observation{row.Observer, r.Subject})
			}
		}
	}
	slices.SortFunc(out, func(a, b Observation) int {
		return cmp.Or(a.Observer.Compare(b.Observer), a.Subject.Compare(b.Subject))
	})
	return out
}

// observes tells whether a node's observations count: not after it is down.
func (s *State) observes(n sharding.NodeID) bool {
	m, ok := s.Member(n)
	return ok && m.Status != Down
}

// verdict is the worst that members who are not down observe about a node.
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

// converged tells whether the leader may act: every member that is up or
// leaving has seen this state, and nobody is unreachable who is not down or
// exiting anyway. While nobody is up, all members that are not down must have
// seen it.
// Members that confirmed their exit do not matter any more.
func (s *State) converged(self sharding.NodeID, confirmed []sharding.NodeID, suspects []suspect) bool {
	for _, x := range suspects {
		if x.verdict == Reachable || x.node == self || slices.Contains(confirmed, x.node) {
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

// Claim is what a node says about its cluster when it meets another one, or
// another half of its own. The senior claim wins, the nodes of the other side
// stop.
type Claim struct {
	Cluster ClusterID
	Era     Era
	// Oldest is the oldest member that is not down, by up number and node.
	// Halves of one cluster that downed each other have different ones.
	OldestUp   uint32
	OldestNode sharding.NodeID
}

// Senior tells whether c goes before o: the older cluster, within one cluster
// the side in the later era, then the one with the older member. Equal claims are
// not senior.
func (c Claim) Senior(o Claim) bool {
	if d := c.Cluster.Compare(o.Cluster); d != 0 {
		return d < 0
	}
	if d := c.Era.Compare(o.Era); d != 0 {
		return d > 0
	}
	a, b := Member{UpNumber: c.OldestUp, Node: c.OldestNode}, Member{UpNumber: o.OldestUp, Node: o.OldestNode}
	return a.OlderThan(&b)
}

func (s *State) claim() Claim {
	var oldest *Member
	for _, m := range s.Members {
		if m.Status != Down && (oldest == nil || m.OlderThan(oldest)) {
			oldest = m
		}
	}
	c := Claim{Cluster: s.Cluster, Era: s.Era}
	if oldest != nil {
		c.OldestUp, c.OldestNode = oldest.UpNumber, oldest.Node
	}
	return c
}
