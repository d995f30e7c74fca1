package cluster

import (
	"testing"
	"time"

	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

// TestViewsAreJudged: invented violations are found, and nothing is found in correct views.
func TestViewsAreJudged(t *testing.T) {
	event := func(seq uint64, kind, node string) *membershipv1.Event {
		return &membershipv1.Event{Seq: seq, Kind: kind, Node: node, AtUnixMs: int64(seq) * 1000}
	}
	member := func(addr, uid, status string) *membershipv1.ClusterMember {
		return &membershipv1.ClusterMember{Addr: addr, Uid: uid, Status: status, Reachable: true}
	}
	both := []*membershipv1.ClusterMember{member("a:1", "1", "up"), member("b:1", "2", "up")}
	history := []*membershipv1.Event{event(1, "up", "b:1#1"), event(2, "removed", "b:1#1"), event(3, "up", "b:1#2")}
	for name, c := range map[string]struct {
		events     []*membershipv1.Event
		a, b       []*membershipv1.ClusterMember
		bad, apart bool
	}{
		"a new incarnation":         {events: history, a: both, b: both},
		"back in one view's events": {events: append(history[:3:3], event(4, "up", "b:1#1")), a: both, b: both, bad: true},
		"back in a view":            {events: history, a: both, b: append(both[:2:2], member("b:1", "1", "up")), bad: true, apart: true},
		"too few events":            {events: history[1:], a: both, b: both, bad: true},
		"different views":           {events: history, a: both, b: both[:1], apart: true},
		"not all are up":            {events: history, a: both, b: []*membershipv1.ClusterMember{both[0], member("b:1", "2", "joining")}, apart: true},
	} {
		var v views
		v.note("a", time.Unix(9, 0), &membershipv1.EventsResponse{Stream: "a:1#1", Members: c.a, Events: c.events})
		v.note("b", time.Unix(9, 0), &membershipv1.EventsResponse{Stream: "b:1#2", Members: c.b})
		if errs := v.check([]string{"a", "b"}); len(errs) > 0 != c.bad {
			t.Errorf("%s: %v", name, errs)
		}
		if err := v.disagreement(time.Unix(9, 0), []string{"a", "b"}); err != nil != c.apart {
			t.Errorf("%s: %v", name, err)
		}
		if v.disagreement(time.Unix(10, 0), []string{"a"}) == nil {
			t.Errorf("%s: an old answer counts", name)
		}
	}
	var v views
	v.note("a", time.Unix(9, 0), &membershipv1.EventsResponse{Stream: "a:1#1", Events: history})
	if first, last, err := v.took(time.Unix(0, 0), []string{"b:1#1"}, []string{"a"}, "removed"); err != nil || first != 2*time.Second || last != first {
		t.Errorf("removed after %v, %v: %v", first, last, err)
	}
	if _, _, err := v.took(time.Unix(3, 0), []string{"b:1#1"}, []string{"a"}, "removed"); err == nil {
		t.Error("what happened before counts")
	}
}
