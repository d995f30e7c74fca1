package gossip

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/vclock"
)

// Clock is a vector clock over incarnations.
type Clock = vclock.Clock[sharding.NodeUID]

// ClusterID names a cluster by when and by whom it was formed.
type ClusterID struct {
	Founded int64 // Unix milliseconds by the founder's clock
	Founder sharding.NodeUID
}

// Compare orders clusters by age, the oldest first.
func (c ClusterID) Compare(o ClusterID) int {
	return cmp.Or(cmp.Compare(c.Founded, o.Founded), cmp.Compare(c.Founder, o.Founder))
}

// Tombstone keeps a removed node from coming back with an outdated message.
type Tombstone struct {
	Node    sharding.NodeID
	Removed int64 // Unix milliseconds by the remover's clock
}

// State is what nodes gossip about. It is a value: whoever changes it makes a
// new one, so states may be shared freely.
type State struct {
	Cluster    ClusterID
	Members    []Member // sorted by node
	Reach      Reachability
	Tombstones []Tombstone // sorted by node
	Version    Clock
	// Seen are the nodes known to hold exactly this state, sorted. It is not
	// part of what they have seen.
	Seen []sharding.NodeID
}

func memberOf(m Member, n sharding.NodeID) int       { return m.Node.Compare(n) }
func tombstoneOf(t Tombstone, n sharding.NodeID) int { return t.Node.Compare(n) }

// Member finds a member. The result must not be changed.
func (s *State) Member(n sharding.NodeID) (*Member, bool) {
	if i, ok := slices.BinarySearchFunc(s.Members, n, memberOf); ok {
		return &s.Members[i], true
	}
	return nil, false
}

// IsRemoved tells whether a node has a tombstone.
func (s *State) IsRemoved(n sharding.NodeID) bool {
	_, ok := slices.BinarySearchFunc(s.Tombstones, n, tombstoneOf)
	return ok
}

// HasSeen tells whether a node is known to hold exactly this state.
func (s *State) HasSeen(n sharding.NodeID) bool {
	_, ok := slices.BinarySearchFunc(s.Seen, n, sharding.NodeID.Compare)
	return ok
}

// join is the state that includes both: of every member the later record, of
// every observer the newer row, of everybody removed the tombstone and nothing
// else. Nobody is known to have seen the result.
func (s *State) join(o *State) State {
	out := State{
		Cluster:    s.Cluster,
		Members:    mergeSorted(s.Members, o.Members, memberOrder, func(a, b Member) Member { return *later(&a, &b) }),
		Reach:      s.Reach.Merge(o.Reach),
		Tombstones: mergeSorted(s.Tombstones, o.Tombstones, tombstoneOrder, latest),
		Version:    s.Version.Merge(o.Version),
	}
	return out.withoutRemoved()
}

func memberOrder(a, b Member) int       { return a.Node.Compare(b.Node) }
func tombstoneOrder(a, b Tombstone) int { return a.Node.Compare(b.Node) }
func latest(a, b Tombstone) Tombstone {
	return Tombstone{a.Node, max(a.Removed, b.Removed)}
}

// withoutRemoved drops every trace of nodes that have a tombstone, and keeps
// observations and clock entries of members only.
func (s *State) withoutRemoved() State {
	out := *s
	out.Members = slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return s.IsRemoved(m.Node) })
	isMember := func(n sharding.NodeID) bool {
		_, ok := out.Member(n)
		return ok
	}
	out.Reach = s.Reach.Keep(isMember)
	uids := make([]sharding.NodeUID, len(out.Members))
	for i := range out.Members {
		uids[i] = out.Members[i].Node.UID
	}
	slices.Sort(uids)
	out.Version = s.Version.Keep(func(u sharding.NodeUID) bool {
		_, ok := slices.BinarySearch(uids, u)
		return ok
	})
	out.Seen = slices.DeleteFunc(slices.Clone(s.Seen), func(n sharding.NodeID) bool { return !isMember(n) })
	return out
}

// with is the state with a member added or its record replaced.
func (s *State) with(m Member) State {
	out := *s
	i, ok := slices.BinarySearchFunc(s.Members, m.Node, memberOf)
	out.Members = slices.Clone(s.Members)
	if ok {
		out.Members[i] = m
	} else {
		out.Members = slices.Insert(out.Members, i, m)
	}
	return out
}

// without is the state with nodes removed for good.
func (s *State) without(nodes []sharding.NodeID, at int64) State {
	out := *s
	var stones []Tombstone
	for _, n := range nodes {
		stones = append(stones, Tombstone{n, at})
	}
	slices.SortFunc(stones, tombstoneOrder)
	out.Tombstones = mergeSorted(s.Tombstones, stones, tombstoneOrder, latest)
	return out.withoutRemoved()
}

// pruneTombstones keeps the tombstones newer than limit, and of those at most
// the newest most.
func (s *State) pruneTombstones(limit int64, most int) (State, bool) {
	keep := slices.DeleteFunc(slices.Clone(s.Tombstones), func(t Tombstone) bool { return t.Removed <= limit })
	if len(keep) > most {
		slices.SortFunc(keep, func(a, b Tombstone) int {
			return cmp.Or(cmp.Compare(b.Removed, a.Removed), a.Node.Compare(b.Node))
		})
		keep = keep[:most]
		slices.SortFunc(keep, tombstoneOrder)
	}
	if len(keep) == len(s.Tombstones) {
		return *s, false
	}
	out := *s
	out.Tombstones = keep
	return out, true
}

// youngest is the highest up number.
func (s *State) youngest() uint32 {
	var n uint32
	for i := range s.Members {
		n = max(n, s.Members[i].UpNumber)
	}
	return n
}

// digest is a hash over everything but the version and the seen set: equal
// digests mean equal states. The version stays out, because nodes that
// did the same apart from each other agree.
func (s *State) digest() uint64 { return xxhash.Sum64(s.appendContent(nil, 0)) }

// appendContent appends the canonical form of what digest covers, with times
// relative to epoch.
func (s *State) appendContent(b []byte, epoch int64) []byte {
	b = binary.AppendVarint(b, s.Cluster.Founded-epoch)
	b = binary.AppendUvarint(b, uint64(s.Cluster.Founder))
	b = binary.AppendUvarint(b, uint64(len(s.Members)))
	for i := range s.Members {
		m := &s.Members[i]
		b = appendString(appendNode(b, m.Node), m.Name)
		b = binary.AppendUvarint(b, uint64(len(m.Roles)))
		for _, r := range m.Roles {
			b = appendString(b, r)
		}
		b = append(b, byte(m.Status))
		b = binary.AppendUvarint(b, uint64(m.UpNumber))
	}
	b = binary.AppendUvarint(b, uint64(len(s.Reach)))
	for _, row := range s.Reach {
		b = binary.AppendUvarint(appendNode(b, row.Observer), row.Version)
		b = binary.AppendUvarint(b, uint64(len(row.Records)))
		for _, r := range row.Records {
			b = append(appendNode(b, r.Subject), byte(r.Verdict))
			b = binary.AppendUvarint(b, r.Version)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.Tombstones)))
	for _, t := range s.Tombstones {
		b = binary.AppendVarint(appendNode(b, t.Node), t.Removed-epoch)
	}
	return b
}

func appendNode(b []byte, n sharding.NodeID) []byte {
	return binary.AppendUvarint(appendString(b, n.Addr), uint64(n.UID))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// check tells what is wrong with a state from outside, or "".
func (s *State) check(maxMembers int) string {
	if len(s.Members) > maxMembers {
		return "too many members"
	}
	for i := range s.Members {
		if why := s.Members[i].check(); why != "" {
			return "member: " + why
		}
	}
	switch {
	case !strictlySorted(s.Members, memberOrder):
		return "members are not sorted"
	case !strictlySorted(s.Tombstones, tombstoneOrder):
		return "tombstones are not sorted"
	case !strictlySorted(s.Seen, sharding.NodeID.Compare):
		return "seen set is not sorted"
	case !s.Version.Valid():
		return "clock is not sorted"
	}
	return s.Reach.check()
}

func strictlySorted[T any](s []T, order func(a, b T) int) bool {
	for i := 1; i < len(s); i++ {
		if order(s[i-1], s[i]) >= 0 {
			return false
		}
	}
	return true
}

// mergeSorted merges two sorted lists; both decides about elements in both.
func mergeSorted[T any](a, b []T, order func(a, b T) int, both func(a, b T) T) []T {
	out := make([]T, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch c := order(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, both(a[0], b[0]))
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func union(a, b []sharding.NodeID) []sharding.NodeID {
	return mergeSorted(a, b, sharding.NodeID.Compare, func(a, _ sharding.NodeID) sharding.NodeID { return a })
}
