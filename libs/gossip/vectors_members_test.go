package gossip

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// state builds the gossip of a vector, as if all members were in one data
// center.
func (v *vector) state(t judge) State {
	var list [][2]string
	for _, m := range v.Gossip.Members {
		list = append(list, [2]string{m.N, m.Status})
	}
	s := withMembers(t, list)
	s.Reach = unreachable(nil, v.Gossip.Unreachable)
	s.Seen = s.seenBy(nodes(v.Gossip.Seen)...)
	return s
}

func vecConvergence(t judge, v *vector) {
	s := v.state(t)
	var want bool
	v.expect(t, &want)
	if got := s.converged(node(v.Self), nodes(v.ExitingConfirmed), s.suspects(node(v.Self))); got != want {
		t.Errorf("%s: got %v", v.Name, got)
	}
}

func vecLeader(t judge, v *vector) {
	s := v.state(t)
	var want string
	v.expect(t, &want)
	if got := s.leader(node(v.Self), s.suspects(node(v.Self))); got.Addr != want {
		t.Errorf("%s: got %v, want %q", v.Name, got, want)
	}
}

func vecPrecedence(t judge, v *vector) {
	a, b := Member{Status: status(t, v.A), UpNumber: 2}, Member{Status: status(t, v.B), UpNumber: 1}
	want := status(t, v.Winner)
	for _, got := range []*Member{laterMember(&a, &b), laterMember(&b, &a)} {
		if got.Status != want {
			t.Errorf("%v wins over %v and %v, want %v", got.Status, a.Status, b.Status, want)
		}
		if a.Status == b.Status && got.UpNumber != 1 {
			t.Error("the younger of two equal statuses survives")
		}
	}
}

func vecTransitions(t judge, v *vector) {
	var to []string
	if err := json.Unmarshal(v.To, &to); err != nil {
		t.Fatal(err)
	}
	var want []Status
	for _, name := range to {
		want = append(want, status(t, name))
	}
	from := status(t, v.From)
	for next := Joining; next <= Removed; next++ {
		if got := from.CanBecome(next); got != slices.Contains(want, next) {
			t.Errorf("%v to %v: got %v", from, next, got)
		}
	}
}

func vecMergeMembers(t judge, v *vector) {
	var left, right [][2]string
	var stones []string
	_ = json.Unmarshal(v.Left, &left)
	_ = json.Unmarshal(v.Right, &right)
	_ = json.Unmarshal(v.Tombstones, &stones)
	l, r := withMembers(t, left), withMembers(t, right)
	l = l.without(nodes(stones)...)
	for _, merged := range []State{l.merge(&r), r.merge(&l)} {
		if want := withMembers(t, v.ExpectMembers); len(want.Members) != len(merged.Members) {
			t.Errorf("members are %v, want %v", merged.Members, want.Members)
		} else {
			for i, m := range merged.Members {
				if m.Node != want.Members[i].Node || m.Status != want.Members[i].Status {
					t.Errorf("member %v is %v, want %v", m.Node, m.Status, want.Members[i])
				}
			}
		}
		if v.ExpectClock != nil {
			for _, e := range merged.Version {
				if !slices.ContainsFunc(v.ExpectClock, func(n string) bool { return node(n).UID == e.Node }) {
					t.Errorf("clock is %v, want %v only", merged.Version, v.ExpectClock)
				}
			}
		}
		if len(merged.Seen) != 0 {
			t.Errorf("seen by %v", merged.Seen)
		}
	}
}

func vecMergeSeen(t judge, v *vector) {
	all := append(slices.Clone(v.LeftSeen), v.RightSeen...)
	var list [][2]string
	for _, n := range all {
		list = append(list, [2]string{n, "Up"})
	}
	l, r := withMembers(t, list), withMembers(t, list)
	l.Seen, r.Seen = l.seenBy(nodes(v.LeftSeen)...), r.seenBy(nodes(v.RightSeen)...)
	if merged := l.merge(&r); len(merged.Seen) != 0 {
		t.Errorf("merged state is seen by %v", merged.Seen)
	}
}

func vecOp(t judge, v *vector) {
	switch v.Op[0] {
	case "remove":
		vecOpRemove(t, v)
	case "prune_tombstones":
		t.Error(noTimes)
	case "mark_down":
		vecOpDown(t, v)
	case "update":
		vecOpUpdate(t, v)
	default:
		t.Fatalf("there is no operation %v", v.Op)
	}
}

func (v *vector) named(t judge) State {
	var names []string
	_ = json.Unmarshal(v.Members, &names)
	var list [][2]string
	for _, n := range names {
		name, status, ok := strings.Cut(strings.TrimSuffix(n, ")"), "(")
		if !ok {
			status = "Up"
		}
		list = append(list, [2]string{name, status})
	}
	s := withMembers(t, list)
	s.Reach = unreachable(nil, v.Unreachable)
	s.Seen = s.seenBy(nodes(v.Seen)...)
	return s
}

func vecOpRemove(t judge, v *vector) {
	s := v.named(t)
	s.Seen = allBits(len(s.Members))
	gone := node(v.Op[1].(string))
	s = s.without(gone)
	if _, ok := s.Member(gone); ok || s.HasSeen(gone) || !s.IsRemoved(gone) || s.Version.Count(gone.UID) != 0 {
		t.Errorf("traces of the removed node: %+v", s)
	}
	for _, obs := range s.Reach {
		if obs.Node == gone || slices.ContainsFunc(obs.Verdicts, func(r SubjectVerdict) bool { return r.Subject == gone }) {
			t.Errorf("the removed node is in %+v", obs)
		}
	}
	var want struct {
		Members  []string
		ClockHas string `json:"clock_has"`
	}
	v.expect(t, &want)
	if len(s.Members) != len(want.Members) || want.ClockHas != "" && s.Version.Count(node(want.ClockHas).UID) == 0 {
		t.Errorf("too much is gone: %+v", s)
	}
}

func vecOpDown(t judge, v *vector) {
	s := v.named(t)
	target := node(v.Op[1].(string))
	var want struct{ Status map[string]string }
	v.expect(t, &want)
	self := node("zz")
	m := New(Config{Self: self})
	m.phase = member
	m.setState(s)
	m.down([]sharding.NodeID{target}, "")
	for name, w := range want.Status {
		if mem, _ := m.state.Member(node(name)); mem.Status != status(t, w) {
			t.Errorf("%s is %v, want %s", name, mem.Status, w)
		}
	}
	if m.state.HasSeen(target) {
		t.Error("the downed node counts as having seen it")
	}
}

func vecOpUpdate(t judge, v *vector) {
	s := v.named(t)
	for _, change := range v.Op[1:] {
		c := change.([]any)
		mem, ok := s.Member(node(c[0].(string)))
		if !ok {
			t.Fatalf("there is no member %v", c[0])
		}
		updated := *mem
		updated.Status, updated.UpNumber = status(t, c[1].(string)), 1
		s = s.with(updated)
	}
	var want struct {
		Status map[string]string
		Order  []string
	}
	v.expect(t, &want)
	for name, w := range want.Status { // order-free: errors
		if mem, ok := s.Member(node(name)); !ok || mem.Status != status(t, w) {
			t.Errorf("%s is %v, want %s", name, mem, w)
		}
	}
	var order []string
	for _, mem := range s.membersByNode() {
		order = append(order, mem.Node.Addr)
	}
	if !slices.Equal(order, want.Order) {
		t.Errorf("the order is %v, want %v", order, want.Order)
	}
}

func vecYoungest(t judge, v *vector) {
	var s State
	highest := uint32(0)
	for _, m := range v.MembersUp {
		mem := Member{Node: node(m[0].(string)), Status: Joining}
		if n, ok := m[1].(float64); ok {
			mem.Status, mem.UpNumber = Up, uint32(n)
		}
		if m[0] == strings.Trim(string(v.Expect), `"`) {
			highest = mem.UpNumber
		}
		s = s.with(mem)
	}
	if s.lastUpNumber() != highest {
		t.Errorf("youngest is %d, want %d", s.lastUpNumber(), highest)
	}
}

func vecPair(t judge, v *vector) {
	var to string
	_ = json.Unmarshal(v.To, &to)
	var want bool
	v.expect(t, &want)
	if got := unreachable(nil, v.Unreachable).Of(node(v.From), node(to)) == Reachable; got != want {
		t.Errorf("got %v", got)
	}
}

func vecExcluding(t judge, v *vector) {
	var to string
	_ = json.Unmarshal(v.To, &to)
	var want bool
	v.expect(t, &want)
	var s State
	for name := range v.DCs {
		s = s.with(Member{Node: node(name), Status: Up, UpNumber: 1})
	}
	s.Reach = unreachable(nil, v.Unreachable)
	if got := s.verdict(node(to)) == Reachable; got != want {
		t.Errorf("got %v", got)
	}
}

func vecAddressOrder(t judge, v *vector) {
	got := slices.Clone(v.ExpectSorted)
	slices.Reverse(got)
	slices.SortFunc(got, sharding.CompareAddr)
	if !slices.Equal(got, v.ExpectSorted) {
		t.Errorf("got %v, want %v", got, v.ExpectSorted)
	}
}

// uidOrder begins what a pair objects to whose uids are ordered otherwise.
const uidOrder = "the order of uids: "

// vecPairs compares members that differ in their uids alone, which are signed in
// the vectors.
func vecPairs(t judge, v *vector) {
	signed := func(name string) sharding.NodeID {
		addr, uid, _ := strings.Cut(name, "#")
		n, err := strconv.ParseInt(uid, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return sharding.NodeID{Addr: addr, UID: sharding.NodeUID(n)}
	}
	for _, p := range v.Pairs {
		a, b := signed(p.A), signed(p.B)
		var s State
		s = s.with(Member{Node: a, Status: Joining})
		if s = s.with(Member{Node: b, Status: Joining}); len(s.Members) != 2 {
			t.Errorf("%v and %v are one member", a, b)
		}
		if got := a.Compare(b); got != p.Compare {
			t.Errorf(uidOrder+"%v to %v is %d, want %d", a, b, got, p.Compare)
		}
	}
}

func vecMemberOrder(t judge, v *vector) {
	if v.Pairs != nil {
		vecPairs(t, v)
		return
	}
	var list [][2]string
	if err := json.Unmarshal(v.Members, &list); err != nil || v.ExpectSorted == nil {
		t.Fatal("not a list to sort: ", err)
	}
	s := withMembers(t, list)
	got := s.membersByNode()
	if v.Kind == "leader_status_order" {
		slices.SortFunc(got, byLeaderRank)
	}
	var names []string
	for _, m := range got {
		names = append(names, m.Node.Addr)
	}
	if !slices.Equal(names, v.ExpectSorted) {
		t.Errorf("got %v, want %v", names, v.ExpectSorted)
	}
}

// vecEvents compares the events between two views with the events of a vector.
func vecEvents(t judge, v *vector) {
	var want map[string]json.RawMessage
	v.expect(t, &want)
	for key, raw := range want { // order-free: each is looked at alone
		observer, of := "self", key
		if kind, name, ok := strings.Cut(key, "_when_self_is_"); ok {
			observer, of = name, kind
		}
		members, un, re, leader := v.events(t, node(observer))
		var names []string
		switch of {
		case "member_events":
			var list [][]string
			_ = json.Unmarshal(raw, &list)
			for _, e := range list {
				line := fmt.Sprintf("%s %v", e[0], node(e[1]))
				if len(e) > 2 {
					line += " " + strings.ToLower(e[2])
				}
				names = append(names, line)
			}
			sameSet(t, key, members, &names)
		case "unreachable_events":
			_ = json.Unmarshal(raw, &names)
			sameSet(t, key, un, &names)
		case "reachable_events":
			_ = json.Unmarshal(raw, &names)
			sameSet(t, key, re, &names)
		case "leader_changed":
			var want string // null: no event
			_ = json.Unmarshal(raw, &want)
			if leader != want {
				t.Errorf("%s: got %q, want %q", key, leader, want)
			}
		default:
			t.Error(noEvents + key)
		}
	}
}

// events lists what a node tells between the two views of a vector.
func (v *vector) events(t judge, self sharding.NodeID) (members, un, re []string, leader string) {
	m := New(Config{Self: self})
	m.phase = member
	for _, view := range []vecView{v.Before, v.After} {
		s := withMembers(t, view.Members)
		s.Reach = m.state.Reach // observers keep their versions
		for _, obs := range s.Reach {
			for _, r := range obs.Verdicts {
				s.Reach = s.Reach.Set(obs.Node, r.Subject, Reachable)
			}
		}
		s.Reach = unreachable(s.Reach, view.Unreachable)
		s.Seen = s.seenBy(nodes(view.Seen)...)
		m.out = nil
		m.setState(s)
		m.publish()
	}
	names := map[string]string{"MemberLeaving": "MemberLeft"}
	for _, o := range m.out {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "gossip.")
		if n, ok := names[kind]; ok {
			kind = n
		}
		switch e := o.(type) {
		case ReachabilityChanged:
			if list := map[bool]*[]string{true: &re, false: &un}[e.Reachable]; !e.ByMe {
				*list = append(*list, e.Node.Addr)
			}
		case LeaderChanged:
			leader = e.Leader.Addr
		case MemberRemoved:
			members = append(members, fmt.Sprintf("%s %v previous=%v", kind, e.Member.Node, e.Member.Status))
		default:
			members = append(members, fmt.Sprintf("%s %v", kind, nodeOf(o)))
		}
	}
	return members, un, re, leader
}

func nodeOf(o Output) sharding.NodeID {
	switch e := o.(type) {
	case MemberJoined:
		return e.Member.Node
	case MemberWeaklyUp:
		return e.Member.Node
	case MemberUp:
		return e.Member.Node
	case MemberLeaving:
		return e.Member.Node
	case MemberExited:
		return e.Member.Node
	case MemberDowned:
		return e.Member.Node
	}
	return sharding.NodeID{}
}

func vecExitingTargets(t judge, v *vector) {
	var list [][]any
	_ = json.Unmarshal(v.Members, &list)
	var s State
	for _, m := range list {
		mem := Member{Node: node(m[0].(string)), Status: Up, UpNumber: uint32(m[1].(float64))}
		for _, r := range m[2].([]any) {
			mem.Roles = append(mem.Roles, r.(string))
		}
		s = s.with(mem)
	}
	var want, got []string
	v.expect(t, &want)
	for _, n := range s.concernedBy(nodes(v.Exiting)) {
		got = append(got, n.Addr)
	}
	sameSet(t, "targets", got, &want)
}
