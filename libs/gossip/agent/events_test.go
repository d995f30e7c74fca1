package agent

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

func leads(uid int) gossip.Event {
	return gossip.LeaderChanged{Leader: sharding.NodeID{Addr: "a:1", UID: sharding.NodeUID(uid)}}
}

// A follower gets everything in order, or a notice that something is missing.
func TestFollowersMissNothingSilently(t *testing.T) {
	l := newEventLog(4, gossip.View{})
	fast, slow := &Follower{log: l}, &Follower{log: l}
	next := func(f *Follower) Batch {
		t.Helper()
		b, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, f := range []*Follower{fast, slow} {
		if b := next(f); !b.Resync || b.Missed != 0 || len(b.Events) != 0 {
			t.Errorf("the first batch is %+v", b)
		}
	}
	for i := 1; i <= 6; i++ {
		l.add(time.Unix(int64(i), 0), gossip.View{InCluster: true}, []gossip.Event{leads(i)})
		if b := next(fast); b.Resync || len(b.Events) != 1 || b.Events[0].Seq != uint64(i) || b.Events[0].Event != leads(i) {
			t.Errorf("batch %d is %+v", i, b)
		}
	}
	if b := next(slow); !b.Resync || b.Missed != 6 || !b.View.InCluster {
		t.Errorf("who fell behind gets %+v", b)
	}
	l.add(time.Unix(7, 0), gossip.View{}, []gossip.Event{leads(7), leads(8)})
	if b := next(slow); b.Resync || len(b.Events) != 2 || b.Events[1].Seq != 8 {
		t.Errorf("and then %+v", b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := slow.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.end()
	if b := next(fast); len(b.Events) != 2 {
		t.Errorf("what came before the end: %+v", b)
	}
	if _, err := fast.Next(t.Context()); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestEventsOverTheAdminAPI(t *testing.T) {
	cfg := Config{Core: gossip.DefaultConfig(), Cluster: "test", EventLog: 4}
	cfg.Core.Self = sharding.NodeID{Addr: "a:1", UID: 1}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(stream string, next uint64) *membershipv1.EventsResponse {
		t.Helper()
		res, err := admin{a}.Events(t.Context(), &membershipv1.EventsRequest{Stream: stream, Next: next})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	a.step(gossip.Start{})
	first := ask("", 0)
	if !first.Resync || len(first.Members) != 1 || len(first.Events) != 2 || first.Events[0].Kind != "up" {
		t.Fatalf("the first answer is %v", first)
	}
	a.step(gossip.LeaveNode{Node: cfg.Core.Self})
	second := ask(first.Stream, first.Next)
	if second.Resync || len(second.Events) != 1 || second.Events[0].Kind != "asked-to-leave" {
		t.Errorf("the second is %v", second)
	}
	if other := ask("b:1#2", second.Next); !other.Resync {
		t.Errorf("for another stream: %v", other)
	}
}

// An event has the name of the member that it is about, also when that is none any
// more.
func TestEventsKeepNames(t *testing.T) {
	n := sharding.NodeID{Addr: "b:1", UID: 2}
	with := gossip.View{Members: []gossip.MemberView{{Member: gossip.Member{Node: n, Name: "region-2"}}}}
	l := newEventLog(4, with)
	l.add(time.Unix(1, 0), gossip.View{}, []gossip.Event{gossip.NodeGone{Node: n}})
	for _, r := range l.newest() {
		if e := toEvent(r, &gossip.View{}); e.Name != "region-2" || e.Kind != "gone" || e.Node != "b:1#2" {
			t.Errorf("the event is %v", e)
		}
	}
}

func TestMembersAreFoundByName(t *testing.T) {
	member := func(name, addr string, uid int, s gossip.Status) gossip.MemberView {
		return gossip.MemberView{Member: gossip.Member{Name: name, Node: sharding.NodeID{Addr: addr, UID: sharding.NodeUID(uid)}, Status: s}}
	}
	v := gossip.View{InCluster: true, Members: []gossip.MemberView{
		member("x", "a:1", 1, gossip.Down), member("x", "a:1", 2, gossip.Up), member("y", "b:1", 3, gossip.Up), member("y", "c:1", 4, gossip.Up),
	}}
	for name, want := range map[string]sharding.NodeUID{"x": 2, "a:1": 2, "a:1#1": 1, "c:1": 4, "y": 0, "z": 0} {
		m, err := find(v, name)
		if want == 0 != (err != nil) || err == nil && m.Node.UID != want {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}
