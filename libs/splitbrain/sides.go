package splitbrain

import (
	"slices"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// action is a strategy's decision for the side of the deciding node.
type action uint8

const (
	downUnreachable action = iota + 1
	downReachable
	downAll
	// downIndirect: the indirectly connected, and the side against which the
	// strategy decides without them.
	downIndirect
	// downIndirectReversed: the indirectly connected and all that are
	// reachable, because the lease is held elsewhere.
	downIndirectReversed
)

var actionNames = map[action]string{
	downUnreachable: "the unreachable go", downReachable: "the reachable go", downAll: "all go",
	downIndirect:         "the indirectly connected and the losing side go",
	downIndirectReversed: "the indirectly connected and the reachable go",
}

// strategy decides which side stays.
type strategy interface{ decide(s *sides) action }

// sides divides the membership in two: the deciding node with all members that are
// reachable, and the unreachable members.
type sides struct {
	members     []gossip.MemberView // sorted by node
	self        int
	records     []record
	unreachable []bool // by member
	// Two signs, by member, of an indirect connection. observerAndSubject: it is
	// both observer and subject of observations. seenBySubject: it is observer or
	// subject of an observation whose subject has seen the state that contains it.
	observerAndSubject, seenBySubject []bool
}

// record is an observation by the indexes of the members.
type record struct{ observer, subject int }

func newSides(v *gossip.View) *sides {
	s := &sides{members: v.Members, self: -1, unreachable: make([]bool, len(v.Members))}
	for i := range v.Members {
		if v.Members[i].Node == v.Self {
			s.self = i
		} else {
			s.unreachable[i] = !v.Members[i].Reachable
		}
	}
	for _, o := range v.Observations {
		r := record{s.find(o.Observer), s.find(o.Subject)}
		if r.observer >= 0 && r.subject >= 0 {
			s.records = append(s.records, r)
		}
	}
	s.findIndirect()
	return s
}

func (s *sides) find(n sharding.NodeID) int {
	i, ok := slices.BinarySearchFunc(s.members, n, func(m gossip.MemberView, n sharding.NodeID) int { return m.Node.Compare(n) })
	if !ok {
		return -1
	}
	return i
}

// findIndirect finds the signs of indirect connection. A clean partition or a
// crash gives none: the subjects are then on the other side, observe nothing on
// this one, and have not seen that they are observed.
func (s *sides) findIndirect() {
	n := len(s.members)
	flags := make([]bool, 4*n)
	observer, subject := flags[:n], flags[n:2*n]
	s.observerAndSubject, s.seenBySubject = flags[2*n:3*n], flags[3*n:]
	// Invariant: after a partition, at most one side continues permanently.
	// Guarded by: `splitbrain.Resolver` with `lease-majority`: the side that holds the coordinator's lease continues.
	// If the lease's holder dies between the decisions of two sides, both sides may go on. Usually the side that
	// decided first then ends, at the latest after `gossip.lease_patience`. If the holder has restarted and joined that
	// side again before, both sides stay until they reach each other (package doc of libs/splitbrain).
	// Mutants: split-indirect, split-leader, split-lease-fresh, split-lease-given, split-observations, split-old,
	// split-own-pause, split-quorum-size, split-recount, split-seen, split-stable-after, split-tie, split-unstable,
	// split-yield-late
	//mutant:do split-indirect return
	for _, r := range s.records {
		observer[r.observer], subject[r.subject] = true, true
		if s.members[r.subject].Seen { //mutant:false split-seen
			s.seenBySubject[r.observer], s.seenBySubject[r.subject] = true, true
		}
	}
	for i := range observer {
		s.observerAndSubject[i] = observer[i] && subject[i]
	}
}

func (s *sides) indirect(i int) bool { return s.observerAndSubject[i] || s.seenBySubject[i] }

func (s *sides) anyIndirect() bool {
	return slices.Contains(s.observerAndSubject, true) || slices.Contains(s.seenBySubject, true)
}

// withoutIndirect is the membership as if the indirectly connected members reached
// each other. Observations by members that are unreachable even so are left out,
// because they are old: when two members crash one after the other, the second
// leaves its observation of the first.
func (s *sides) withoutIndirect() *sides {
	t := &sides{members: s.members, self: s.self}
	for _, r := range s.records {
		if !(s.observerAndSubject[r.observer] && s.observerAndSubject[r.subject] || s.seenBySubject[r.observer] && s.seenBySubject[r.subject]) {
			t.records = append(t.records, r)
		}
	}
	gone := t.subjects()
	t.records = slices.DeleteFunc(t.records, func(r record) bool { return gone[r.observer] }) //mutant:skip split-old
	t.unreachable = t.subjects()
	t.findIndirect()
	return t
}

// subjects are the members that are observed, without this node.
func (s *sides) subjects() []bool {
	out := make([]bool, len(s.members))
	for _, r := range s.records {
		out[r.subject] = r.subject != s.self
	}
	return out
}

// filter selects the members that count. Those that are exiting or down never do.
type filter struct {
	role string // "": any
	// joining counts members that are not up yet: the other side may have
	// moved them up.
	joining bool
	// leaving counts members that are leaving: the other side may have moved
	// them on to exiting.
	leaving bool
}

func (s *sides) counts(i int, w filter) bool {
	m := &s.members[i]
	switch m.Status {
	case gossip.Up:
	case gossip.Leaving:
		if !w.leaving {
			return false
		}
	case gossip.Exiting, gossip.Down, gossip.Removed:
		return false
	default: // not up yet
		if !w.joining {
			return false
		}
	}
	return m.HasRole(w.role)
}

// count counts members on one side.
func (s *sides) count(unreachable bool, w filter) int {
	n := 0
	for i := range s.members {
		if s.unreachable[i] == unreachable && s.counts(i, w) {
			n++
		}
	}
	return n
}

// first is the index of the first counted member in an order; -1 if none counts.
func (s *sides) first(w filter, before func(a, b *gossip.Member) bool) int {
	best := -1
	for i := range s.members {
		if s.counts(i, w) && (best < 0 || before(&s.members[i].Member, &s.members[best].Member)) {
			best = i
		}
	}
	return best
}

func byAddress(a, b *gossip.Member) bool { return a.Node.Compare(b.Node) < 0 }

func byAge(a, b *gossip.Member) bool { return a.OlderThan(b) }

// downable members can be declared down; exiting ones go anyway.
func (s *sides) downable(i int) bool {
	st := s.members[i].Status
	return st != gossip.Exiting && st != gossip.Down && st != gossip.Removed
}

// nodes are the members that an action downs.
func (s *sides) nodes(st strategy, a action) []sharding.NodeID {
	goes := s.goes(st, a)
	var out []sharding.NodeID
	for i := range s.members {
		if goes(i) && s.downable(i) {
			out = append(out, s.members[i].Node)
		}
	}
	return out
}

func (s *sides) goes(st strategy, a action) func(i int) bool {
	switch a {
	case downUnreachable:
		return func(i int) bool { return s.unreachable[i] }
	case downReachable:
		return func(i int) bool { return !s.unreachable[i] }
	case downIndirectReversed:
		return func(i int) bool { return s.indirect(i) || !s.unreachable[i] }
	case downIndirect:
		t := s.withoutIndirect()
		if !t.anyMember(func(i int) bool { return t.unreachable[i] && t.downable(i) }) {
			return s.indirect
		}
		second := st.decide(t)
		if second == downIndirect {
			break // no side can be sure of itself
		}
		also := t.goes(st, second)
		return func(i int) bool { return s.indirect(i) || also(i) }
	}
	return func(int) bool { return true }
}

func (s *sides) anyMember(is func(i int) bool) bool {
	for i := range s.members {
		if is(i) {
			return true
		}
	}
	return false
}
