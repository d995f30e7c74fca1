package gossip

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/vclock"
)

// Clock is a vector clock over incarnations.
type Clock = vclock.Clock[sharding.NodeUID]

// Founding identifies a cluster by when and by whom it was formed.
type Founding struct {
	Founded int64 // Unix milliseconds by the founder's clock
	Founder sharding.NodeUID
}

// Compare orders clusters by age, the oldest first.
func (c Founding) Compare(o Founding) int {
	return cmp.Or(cmp.Compare(c.Founded, o.Founded), cmp.Compare(c.Founder, o.Founder))
}

// Tombstone keeps a removed node from coming back with an outdated message.
type Tombstone struct {
	Node sharding.NodeID
	Era  uint64 // the number of the [Era] in which it was removed
}

// State is the content of gossip. It is a value: a change makes a new state and a new entry in it, so
// states and their entries may be shared freely. All its lists are sorted by uid. Every part of a state
// (see [GossipStatus]) is therefore a contiguous range of each list, and places are cheap to find.
type State struct {
	Cluster    Founding
	Era        Era
	Members    []*Member
	Reach      Reachability
	Tombstones []Tombstone
	Version    Clock
	// Seen are the members known to hold exactly this state, by their places in
	// Members. It is not covered by the digest.
	Seen Bits
}

// byUID is the order of all lists of a state. The address only matters if two
// addresses have the same uid, which must not happen but may.
func byUID(a, b sharding.NodeID) int {
	switch {
	case a.UID < b.UID:
		return -1
	case a.UID > b.UID:
		return 1
	}
	return cmp.Compare(a.Addr, b.Addr)
}

func compareTombstone(t Tombstone, n sharding.NodeID) int { return byUID(t.Node, n) }

// place returns the index of a node among the members, or the index at which it would be
// inserted.
func (s *State) place(n sharding.NodeID) (int, bool) {
	return placeIn(s.Members, 0, n, func(m *Member, n sharding.NodeID) int { return byUID(m.Node, n) })
}

// Member finds a member. The result must not be changed.
func (s *State) Member(n sharding.NodeID) (*Member, bool) {
	if i, ok := s.place(n); ok {
		return s.Members[i], true
	}
	return nil, false
}

// membersAt are the members at an address.
func (s *State) membersAt(addr string) []*Member {
	var out []*Member
	for _, m := range s.Members {
		if m.Node.Addr == addr {
			out = append(out, m)
		}
	}
	return out
}

// membersByNode are the members sorted by node: by address first, the order in
// which people read them and in which they get their up numbers.
func (s *State) membersByNode() []*Member {
	return slices.SortedFunc(slices.Values(s.Members), func(a, b *Member) int { return a.Node.Compare(b.Node) })
}

// IsRemoved reports whether a node has a tombstone.
func (s *State) IsRemoved(n sharding.NodeID) bool {
	_, ok := slices.BinarySearchFunc(s.Tombstones, n, compareTombstone)
	return ok
}

// sameNodes reports whether two lists of members are of the same nodes.
func sameNodes(a, b []*Member) bool {
	return identical(a, b) || slices.EqualFunc(a, b, func(x, y *Member) bool { return x == y || x.Node == y.Node })
}

// HasSeen reports whether a node is known to hold exactly this state.
func (s *State) HasSeen(n sharding.NodeID) bool {
	i, ok := s.place(n)
	return ok && s.Seen.Has(i)
}

// seenBy returns the seen set with all of the given nodes that are members.
func (s *State) seenBy(nodes ...sharding.NodeID) Bits {
	out := make(Bits, (len(s.Members)+7)/8)
	for _, n := range nodes {
		if i, ok := s.place(n); ok {
			out[i>>3] |= 1 << (i & 7)
		}
	}
	return out
}

// merge returns the state that includes both: the later entry of every member, the newer one of every
// observer, and only the tombstone of every removed node. No node is known to have seen the result. Lists
// that do not change are shared with s.
//
// The other state must be of the same [Era]. It may be a [State.fragment]. If an observer
// in it has a verdict about an unknown node, the observer's entry is left out, because
// that verdict would be lost. The entry comes again with the unknown member or after it.
func (s *State) merge(o *State) State {
	out := State{Cluster: s.Cluster, Era: s.Era, Version: s.Version}
	out.Tombstones = mergeSorted(s.Tombstones, o.Tombstones, tombstoneOrder, laterTombstone)
	theirs := o.Members
	if len(out.Tombstones) > 0 {
		theirs = excluding(theirs, func(m *Member) bool { return out.IsRemoved(m.Node) })
	}
	out.Members = mergeSorted(s.Members, theirs, memberOrder, laterMember)
	// A tombstone that is new here may be of a member.
	removes := !identical(out.Tombstones, s.Tombstones) && slices.ContainsFunc(o.Tombstones, func(t Tombstone) bool {
		_, ok := s.Member(t.Node)
		return ok
	})
	isMember := func(n sharding.NodeID) bool {
		_, ok := out.Member(n)
		return ok
	}
	if removes {
		out.Members = excluding(out.Members, func(m *Member) bool { return out.IsRemoved(m.Node) })
	}
	at, namesRemoved := 0, false // namesRemoved is true if a verdict is about a removed node
	observers := excluding(o.Reach, func(r *Observer) bool {
		i, ok := placeIn(s.Reach, at, r, observerOrder)
		if at = i; ok && newerObserver(s.Reach[i], r) == s.Reach[i] || !isMember(r.Node) {
			return true // nothing new, or not from a member
		}
		return slices.ContainsFunc(r.Verdicts, func(r SubjectVerdict) bool {
			if isMember(r.Subject) {
				return false
			}
			namesRemoved = true
			return !out.IsRemoved(r.Subject)
		})
	})
	if namesRemoved {
		observers = observers.Keep(isMember)
	}
	out.Reach = s.Reach.Merge(observers)
	out.Version = mergeSorted(s.Version, knownCounts(o.Version, theirs), clockOrder, higherEntry)
	if removes {
		out.Reach = out.Reach.Keep(isMember)
		out.Version = knownCounts(out.Version, out.Members)
	}
	return out
}

// knownCounts are the entries of a clock that belong to members.
func knownCounts(c Clock, members []*Member) Clock {
	return excluding(c, func(e clockEntry) bool {
		for len(members) > 0 && members[0].Node.UID < e.Node {
			members = members[1:]
		}
		return len(members) == 0 || members[0].Node.UID != e.Node
	})
}

func memberOrder(a, b *Member) int      { return byUID(a.Node, b.Node) }
func observerOrder(a, b *Observer) int  { return byUID(a.Node, b.Node) }
func tombstoneOrder(a, b Tombstone) int { return byUID(a.Node, b.Node) }

func laterTombstone(a, b Tombstone) Tombstone {
	if a.Era >= b.Era {
		return a
	}
	return b
}

// withoutRemoved drops every trace of nodes that have a tombstone, and keeps
// observations and clock entries of members only.
func (s *State) withoutRemoved() State {
	out := *s
	out.Members = excluding(s.Members, func(m *Member) bool { return s.IsRemoved(m.Node) })
	return out.restrictedToMembers(len(s.Members))
}

// restrictedToMembers keeps observations and clock entries of members only. The
// state had that many members before some were dropped.
func (s *State) restrictedToMembers(had int) State {
	out := *s
	out.Reach = s.Reach.Keep(func(n sharding.NodeID) bool {
		_, ok := out.Member(n)
		return ok
	})
	out.Version = knownCounts(s.Version, out.Members)
	if len(out.Members) != had {
		out.Seen = nil
	}
	return out
}

// with returns the state with a member added or replaced.
func (s *State) with(m Member) State {
	out := *s
	i, ok := s.place(m.Node)
	if ok {
		out.Members = slices.Clone(s.Members)
		out.Members[i] = &m
		return out
	}
	out.Members = slices.Insert(slices.Clip(s.Members), i, &m)
	out.Seen = nil // it refers to places
	return out
}

// without returns the state with nodes removed permanently.
func (s *State) without(nodes ...sharding.NodeID) State {
	out := *s
	var stones []Tombstone
	for _, n := range nodes {
		stones = append(stones, Tombstone{n, s.Era.Number})
	}
	slices.SortFunc(stones, tombstoneOrder)
	out.Tombstones = mergeSorted(s.Tombstones, stones, tombstoneOrder, laterTombstone)
	out = out.withoutRemoved()
	// Invariant: a removed node never comes back, even after its tombstone is forgotten.
	// Guarded by: `gossip.handleOtherEra`: state of another era is not merged. `advancedTo`: when a member moves to the
	// next era, this member drops old members that are missing in the state of that era. `rejectReason`: if a node
	// first heard of the cluster two or more eras ago, the node is not admitted.
	// Mutants: tombstones, era, era-lift, era-join
	//mutant:do tombstones out.Tombstones = s.Tombstones
	return out
}

// lastUpNumber is the highest up number.
func (s *State) lastUpNumber() uint32 {
	var n uint32
	for _, m := range s.Members {
		n = max(n, m.UpNumber)
	}
	return n
}

// appendContent appends the canonical form of all that a digest covers except the
// clock, with times relative to base.
func (s *State) appendContent(b []byte, base int64) []byte {
	b = binary.AppendVarint(b, s.Cluster.Founded-base)
	b = binary.AppendUvarint(b, uint64(s.Cluster.Founder))
	for _, n := range []uint64{s.Era.Number, uint64(s.Era.By), uint64(s.Era.Before), uint64(len(s.Members))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, m := range s.Members {
		b = appendMember(b, m)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Reach)))
	for _, r := range s.Reach {
		b = appendObserver(b, r)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Tombstones)))
	for _, t := range s.Tombstones {
		b = appendTombstone(b, t)
	}
	return b
}

func appendMember(b []byte, m *Member) []byte {
	b = sharding.AppendString(appendNode(b, m.Node), m.Name)
	b = binary.AppendUvarint(b, uint64(len(m.Roles)))
	for _, r := range m.Roles {
		b = sharding.AppendString(b, r)
	}
	b = sharding.AppendString(sharding.AppendString(b, m.Zone), m.Version)
	b = append(b, byte(m.Status))
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(m.UpNumber)), m.HeardIn)
}

func appendObserver(b []byte, obs *Observer) []byte {
	b = binary.AppendUvarint(appendNode(b, obs.Node), obs.Version)
	b = binary.AppendUvarint(b, uint64(len(obs.Verdicts)))
	for _, r := range obs.Verdicts {
		b = append(appendNode(b, r.Subject), byte(r.Verdict))
		b = binary.AppendUvarint(b, r.Version)
	}
	return b
}

func appendTombstone(b []byte, t Tombstone) []byte {
	return binary.AppendUvarint(appendNode(b, t.Node), t.Era)
}

func appendNode(b []byte, n sharding.NodeID) []byte {
	return binary.AppendUvarint(sharding.AppendString(b, n.Addr), uint64(n.UID))
}

// check describes the fault in a state, or a fragment of one, from another node, or returns "". It does not
// check the seen set, which refers to the whole state.
func (s *State) check(maxMembers int) string {
	if len(s.Members) > maxMembers {
		return "too many members"
	}
	for _, m := range s.Members {
		if why := m.check(); why != "" {
			return "member: " + why
		}
	}
	switch {
	case !strictlySorted(s.Members, memberOrder):
		return "members are not sorted"
	case !strictlySorted(s.Tombstones, tombstoneOrder):
		return "tombstones are not sorted"
	case !s.Version.Valid():
		return "clock is not sorted"
	case slices.ContainsFunc(s.Members, func(m *Member) bool { return m.HeardIn > s.Era.Number }):
		return "a member first heard of the cluster in a later era"
	case slices.ContainsFunc(s.Tombstones, func(t Tombstone) bool { return t.Era > s.Era.Number || s.Era.forgotten(t.Era) }):
		return "a tombstone is of another era"
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

// placeIn finds the place of x in a sorted list, from place at on. It gallops:
// faster than binary search if x is near, and about as fast if it is far.
func placeIn[S ~[]T, T, K any](list S, at int, x K, order func(T, K) int) (int, bool) {
	from, stride := at, 1
	if at == 0 {
		stride = max(1, len(list)) // nothing is known to be near
	}
	for from+stride <= len(list) && order(list[from+stride-1], x) < 0 {
		from += stride
		stride *= 2
	}
	to := min(from+stride, len(list))
	for from < to {
		if middle := int(uint(from+to) / 2); order(list[middle], x) < 0 {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from, from < len(list) && order(list[from], x) == 0
}

// mergeSorted merges the sorted list from into the sorted list into. Of two elements that
// are equal in order, both returns the one to keep, or makes one of them. If nothing changes,
// mergeSorted returns into itself.
func mergeSorted[S ~[]T, T comparable](into, from S, order func(a, b T) int, both func(a, b T) T) S {
	if identical(into, from) {
		return into
	}
	var out S // into[:done], merged, once anything has changed
	done, at := 0, 0
	for _, x := range from {
		i, found := placeIn(into, at, x, order)
		at = i
		if found {
			if x == into[at] {
				continue
			}
			if x = both(into[at], x); x == into[at] {
				continue
			}
		}
		if out == nil {
			out = make(S, 0, len(into)+len(from))
		}
		out = append(append(out, into[done:at]...), x)
		done = at
		if found {
			done++
		}
	}
	if out == nil {
		return into
	}
	return append(out, into[done:]...)
}

// excluding returns the list without the elements that drop selects, or the list itself if there are none
// such. It calls drop once for every element, in order.
func excluding[S ~[]T, T any](list S, drop func(T) bool) S {
	for i := range list {
		if !drop(list[i]) {
			continue
		}
		out := append(make(S, 0, len(list)-1), list[:i]...)
		for _, x := range list[i+1:] {
			if !drop(x) {
				out = append(out, x)
			}
		}
		return out
	}
	return list
}
