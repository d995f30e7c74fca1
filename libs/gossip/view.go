package gossip

import (
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
	// Leader is the node that this node takes for the leader; zero if none.
	Leader sharding.NodeID
	// Converged tells that everybody who matters is reachable and known to
	// have seen this very state.
	Converged bool
}

// MemberView is a member and how it is reached.
type MemberView struct {
	Member
	// Reachable is false when any member that is not down observes this one as
	// unreachable.
	Reachable bool
	// ReachableByMe is false when the viewing node itself does.
	ReachableByMe bool
	// UnreachableSince is since when Reachable is false, as noticed by the
	// viewing node, its own pauses left out; zero if it is reachable.
	UnreachableSince time.Time
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
	v := View{Self: m.self, InCluster: m.phase == member, Cluster: m.state.Cluster}
	if len(m.state.Members) == 0 {
		return v
	}
	v.Leader = m.state.leader(m.self)
	v.Converged = m.state.converged(m.self, m.confirmed)
	v.Members = make([]MemberView, 0, len(m.state.Members))
	for _, mem := range m.state.Members {
		mv := MemberView{Member: mem, Reachable: true, ReachableByMe: true}
		if p := m.peer(mem.Node); p != nil {
			mv.Reachable = m.state.verdict(mem.Node) == Reachable
			mv.ReachableByMe = m.state.Reach.Of(m.self, mem.Node) == Reachable
			if !mv.Reachable {
				mv.UnreachableSince = p.unreachableSince
			}
		}
		v.Members = append(v.Members, mv)
	}
	return v
}

// verdict is the worst that members who are not down observe about a node.
func (s *State) verdict(n sharding.NodeID) Verdict {
	return s.Reach.Aggregate(n, func(observer sharding.NodeID) bool {
		m, ok := s.Member(observer)
		return ok && m.Status != Down
	})
}

// leader is the first by address of the members that are up or leaving and not
// unreachable; if there is none, the first of the others by status and
// address. A node always counts itself as reachable.
func (s *State) leader(self sharding.NodeID) sharding.NodeID {
	var best *Member
	for i := range s.Members {
		m := &s.Members[i]
		if m.Status == Down || m.Node != self && s.Reach.Aggregate(m.Node, nil) != Reachable {
			continue
		}
		if best == nil || byLeaderRank(m, best) < 0 {
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
func (s *State) converged(self sharding.NodeID, confirmed []sharding.NodeID) bool {
	anybodyUp := slices.ContainsFunc(s.Members, func(m Member) bool { return m.Status == Up || m.Status == Leaving })
	for i := range s.Members {
		m := &s.Members[i]
		if slices.Contains(confirmed, m.Node) {
			continue
		}
		matters := m.Status == Up || m.Status == Leaving || !anybodyUp && m.Status != Down
		if matters && !s.HasSeen(m.Node) {
			return false
		}
		if m.Node != self && m.Status != Down && m.Status != Exiting && s.verdict(m.Node) != Reachable {
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
	// Oldest is the oldest member that is not down, by up number and node.
	// Halves of one cluster that downed each other have different ones.
	OldestUp   uint32
	OldestNode sharding.NodeID
}

// Senior tells whether c goes before o: the older cluster, within one cluster
// the side with the older member. Equal claims are not senior.
func (c Claim) Senior(o Claim) bool {
	if d := c.Cluster.Compare(o.Cluster); d != 0 {
		return d < 0
	}
	a, b := Member{UpNumber: c.OldestUp, Node: c.OldestNode}, Member{UpNumber: o.OldestUp, Node: o.OldestNode}
	return a.OlderThan(&b)
}

func (s *State) claim() Claim {
	var oldest *Member
	for i := range s.Members {
		if m := &s.Members[i]; m.Status != Down && (oldest == nil || m.OlderThan(oldest)) {
			oldest = m
		}
	}
	c := Claim{Cluster: s.Cluster}
	if oldest != nil {
		c.OldestUp, c.OldestNode = oldest.UpNumber, oldest.Node
	}
	return c
}
