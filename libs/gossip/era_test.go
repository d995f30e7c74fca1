package gossip_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// forgetful is a cluster of n nodes that agree, in which an era lasts two seconds.
func forgetful(t *testing.T, n int, downing gossip.Downing) *gossiptest.Net {
	t.Helper()
	net := gossiptest.New(1)
	for i := range n {
		cfg := gossip.DefaultConfig()
		cfg.Seeds = []string{"n1:1", "n2:1"}
		cfg.TombstoneTTL, cfg.Downing = 2*time.Second, downing
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	startAll(net)
	agree(t, net, 30*time.Second)
	return net
}

// forgot waits until no member remembers removed nodes.
func forgot(t *testing.T, net *gossiptest.Net, nodes ...*gossiptest.Node) {
	t.Helper()
	if !net.RunUntil(time.Minute, func() bool {
		for _, node := range nodes {
			if len(node.M.View().Removed) > 0 {
				return false
			}
		}
		return true
	}) {
		t.Fatal("removed nodes are remembered forever")
	}
}

// A member that was paused and cut off for longer than removed nodes are remembered ends
// when it continues, and is not a member again.
func TestRemovedNodeStaysRemoved(t *testing.T) {
	if why := revenant(t); why != "" {
		t.Error(why)
	}
}

// revenant describes the fault.
func revenant(t *testing.T) (why string) {
	defer func() {
		if r := recover(); r != nil { // a member saw it come back
			why = fmt.Sprint(r)
		}
	}()
	net := forgetful(t, 5, gossip.AutoDown{After: 3 * time.Second})
	n5 := net.Nodes[4]
	net.Pause(n5)
	net.Split([]string{n5.Addr}, []string{"n1:1", "n2:1", "n3:1", "n4:1"}) // or what waits for it would tell
	net.Run(20 * time.Second)
	forgot(t, net, net.Nodes[:4]...)
	if n := net.Nodes[0].M.Era().Number; n < 2 {
		t.Fatalf("the era is %d", n)
	}
	net.Heal()
	net.Resume(n5)
	net.Run(10 * time.Second)
	if n5.M != nil {
		return "it continues with what it held"
	}
	net.Start(n5)
	agree(t, net, 30*time.Second)
	return ""
}

// A member that was paused while another one was removed does not bring that one
// back, however long the pause was: it is remembered as long as there is a member
// that has not heard of it.
func TestPausedMemberBringsNobodyBack(t *testing.T) {
	net := forgetful(t, 5, nil)
	n1, n4, n5 := net.Nodes[0], net.Nodes[3], net.Nodes[4]
	net.Pause(n5)
	net.Crash(n4)
	net.Step(n1, gossip.RemoveNode{Node: n4.ID})
	net.Run(time.Minute)
	if len(n1.M.View().Removed) != 1 {
		t.Error("forgotten although a member has not heard of it")
	}
	net.Resume(n5)
	agree(t, net, 30*time.Second) // it panics if anybody sees n4 come back
	forgot(t, net, n1, n5)
}

// ages is a node whose received messages a test scripts.
type ages struct {
	net   *gossiptest.Net
	node  *gossiptest.Node
	state gossip.State
	sent  []gossip.Send
}

var (
	b = sharding.NodeID{Addr: "b:1", UID: 2}
	x = sharding.NodeID{Addr: "x:1", UID: 3}
	y = sharding.NodeID{Addr: "y:1", UID: 4}
)

// newAges is a node that was let in, with b and x, by b.
func newAges() *ages {
	a := &ages{net: gossiptest.New(1)}
	cfg := gossip.DefaultConfig()
	cfg.DriverDecides, cfg.MaxTombstones = true, 2
	a.node = a.net.Add("a:1", cfg)
	a.net.OnSend = func(_ *gossiptest.Node, s gossip.Send) { a.sent = append(a.sent, s) }
	a.net.Start(a.node)
	a.state.Cluster = gossip.Founding{Founded: 1, Founder: b.UID}
	for _, n := range []sharding.NodeID{b, x, y, a.node.ID} { // by uid
		if n != y {
			a.state.Members = append(a.state.Members, &gossip.Member{Node: n, Status: gossip.Joining})
		}
	}
	a.receive(gossip.Welcome{State: a.state})
	return a
}

func (a *ages) receive(msg gossip.Msg) {
	a.sent = nil
	a.net.Step(a.node, gossip.Receive{From: b, To: a.node.ID, Msg: msg})
}

// next brings the next era, in which these are members besides b and the node.
func (a *ages) next(others ...*gossip.Member) {
	a.state.Era = gossip.Era{Number: a.state.Era.Number + 1, By: b.UID, Before: a.state.Era.By}
	last := len(a.state.Members) - 1
	a.state.Members = append(append([]*gossip.Member{a.state.Members[0]}, others...), a.state.Members[last])
	a.receive(gossip.Gossip{State: a.state, Parts: 1, Which: gossip.Bits{1}})
}

func (a *ages) has(n sharding.NodeID) bool {
	_, ok := a.node.M.View().Member(n)
	return ok
}

// A node that moves on to the next era drops the others that are missing there,
// but for nodes that no member can have forgotten.
func TestNextEraDropsMissingMembers(t *testing.T) {
	if why := lifted(t); why != "" {
		t.Error(why)
	}
}

func lifted(t *testing.T) string {
	a := newAges()
	old := &gossip.Member{Node: x, Status: gossip.Joining}
	a.next(old)
	if !a.has(x) || a.node.M.Era() != a.state.Era {
		t.Fatalf("the node is in era %v with %v", a.node.M.Era(), a.node.M.View().Members)
	}
	fresh := a.state
	fresh.Members = append(fresh.Members[:2:2], &gossip.Member{Node: y, Status: gossip.Joining, HeardIn: 1}, fresh.Members[2])
	a.receive(gossip.Gossip{State: fresh, Parts: 1, Which: gossip.Bits{1}})
	a.next()
	if a.has(x) {
		return "who was removed and forgotten is still a member"
	}
	if !a.has(y) {
		return "who came in since then is lost"
	}
	return ""
}

// Gossip of another era changes nothing. A node that is one era behind gets the
// whole state, one that is further behind learns that it is not a member, and
// this node learns of a later era from its members.
func TestErasAreNotMixed(t *testing.T) {
	a := newAges()
	old := a.state
	a.next()
	recent := a.state
	a.next()
	expect := func(of gossip.State, answer gossip.Msg) {
		t.Helper()
		before := a.node.M.Digest()
		of.Members = append(of.Members[:1:1], append([]*gossip.Member{{Node: x, Status: gossip.Joining}}, of.Members[1:]...)...)
		for _, msg := range []gossip.Msg{
			gossip.Gossip{State: of, Parts: 2, Which: gossip.Bits{3}},
			gossip.GossipStatus{Cluster: of.Cluster, Era: of.Era, Digest: 1},
		} {
			a.receive(msg)
			if len(a.sent) != 1 || fmt.Sprintf("%T", a.sent[0].Msg) != fmt.Sprintf("%T", answer) || a.node.M.Digest() != before {
				t.Errorf("%T of era %v in era %v is answered %+v", msg, of.Era, a.node.M.Era(), a.sent)
			}
		}
	}
	old.Members = old.Members[:1:1]
	expect(recent, gossip.Gossip{})
	expect(old, gossip.NotMember{})
	half := recent // began an era of its own
	half.Era = gossip.Era{Number: 2, By: 1, Before: recent.Era.By}
	expect(half, gossip.NotMember{})
	half.Era.By = 9
	expect(half, gossip.GossipStatus{})
	half.Era.Number = 7
	expect(half, gossip.GossipStatus{})
}

// TestLateGossipExcludesNobody: a node that was paused while two eras began answers
// what it finds in its queue. A member that sent some of that long ago stays one.
func TestLateGossipExcludesNobody(t *testing.T) {
	if why := excluded(t); why != "" {
		t.Error(why)
	}
}

func excluded(t *testing.T) string {
	a := newAges()
	old := a.state.Era
	a.next()
	a.next()
	seniority := gossip.Seniority{Cluster: a.state.Cluster, Era: a.state.Era, OldestNode: b}
	a.receive(gossip.NotMember{Seniority: seniority, Outdated: true, Era: old})
	if a.node.Downed > 0 {
		return "a member stops because of its message from an era that it has left"
	}
	a.receive(gossip.NotMember{Seniority: seniority, Outdated: true, Era: a.state.Era})
	if a.node.Downed == 0 {
		t.Error("a node continues although its era ended too long ago")
	}
	return ""
}

// No node is let in that may have been removed and forgotten, nor while there are
// too many removed nodes to remember.
func TestAdmissionByEra(t *testing.T) {
	if why := admitted(t); why != "" {
		t.Error(why)
	}
}

func admitted(t *testing.T) string {
	a := newAges()
	a.next()
	a.next()
	w := sharding.NodeID{Addr: "w:1", UID: 6}
	join := func(n sharding.NodeID, era uint64) {
		a.sent = nil
		a.net.Step(a.node, gossip.Receive{From: n, To: a.node.ID, Msg: gossip.Join{HeardIn: era, Settings: settings()}})
	}
	refused := func(final bool) bool {
		r, ok := a.sent[0].Msg.(gossip.JoinRefused)
		return ok && r.Final == final
	}
	if join(w, 0); !refused(true) {
		return fmt.Sprintf("who asked two eras ago gets %+v", a.sent)
	}
	if join(w, 3); !refused(false) {
		t.Errorf("who has heard of a later era gets %+v", a.sent)
	}
	if join(w, 1); !a.has(w) {
		t.Errorf("who asked one era ago gets %+v", a.sent)
	}
	a.net.Step(a.node, gossip.RemoveNode{Node: w})
	if join(y, 2); !a.has(y) {
		t.Errorf("with one tombstone of two: %+v", a.sent)
	}
	a.net.Step(a.node, gossip.RemoveNode{Node: y})
	if join(sharding.NodeID{Addr: "z:1", UID: 5}, 2); !refused(false) || !strings.Contains(a.sent[0].Msg.(gossip.JoinRefused).Reason, "2 removed nodes") {
		t.Errorf("with two tombstones of two: %+v", a.sent)
	}
	return ""
}

// settings are the settings of newAges, as it would send them itself.
func settings() []gossip.Setting {
	var found []gossip.Setting
	net := gossiptest.New(1)
	cfg := gossip.DefaultConfig()
	cfg.DriverDecides, cfg.MaxTombstones = true, 2
	node := net.Add("a:1", cfg)
	net.OnSend = func(_ *gossiptest.Node, s gossip.Send) {
		if j, ok := s.Msg.(gossip.Join); ok {
			found = j.Settings
		}
	}
	net.Start(node)
	net.Step(node, gossip.Receive{From: b, Msg: gossip.InitJoinAck{}})
	return found
}

// A joiner tells forever the era in which it heard of a cluster first.
func TestJoinerKeepsItsEra(t *testing.T) {
	net := gossiptest.New(1)
	cfg := gossip.DefaultConfig()
	cfg.DriverDecides = true
	node := net.Add("a:1", cfg)
	var last gossip.Join
	net.OnSend = func(_ *gossiptest.Node, s gossip.Send) {
		if j, ok := s.Msg.(gossip.Join); ok {
			last = j
		}
	}
	net.Start(node)
	for _, step := range []struct {
		cluster int64
		era     uint64
		want    uint64
	}{{1, 4, 4}, {1, 9, 4}, {2, 7, 7}, {1, 9, 4}, {1, 3, 3}, {1, 4, 3}} {
		last = gossip.Join{}
		seniority := gossip.Seniority{Cluster: gossip.Founding{Founded: step.cluster}, Era: gossip.Era{Number: step.era}}
		net.Step(node, gossip.Receive{From: b, Msg: gossip.InitJoinAck{Seniority: seniority}})
		if last.HeardIn != step.want {
			t.Errorf("asks in era %d, want %d", last.HeardIn, step.want)
		}
		net.Run(cfg.JoinTimeout + time.Second)
	}
	for n := range int64(100) {
		if node.M == nil {
			return
		}
		net.Step(node, gossip.Receive{From: b, Msg: gossip.InitJoinAck{Seniority: gossip.Seniority{Cluster: gossip.Founding{Founded: n}}}})
		net.Run(cfg.JoinTimeout + time.Second)
	}
	t.Error("a joiner remembers clusters without bound")
}

// The storm of TestConvergesAfterStorm in a cluster that forgets removed nodes
// within seconds, and with pauses and cuts beyond that: no removed node comes back.
func TestStormBeyondTheRetention(t *testing.T) {
	seeds := 10
	if testing.Short() {
		seeds = 5
	}
	var eras uint64
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { eras += storm(t, seed, true) })
	}
	if t.Logf("%d eras", eras); eras < uint64(seeds) {
		t.Errorf("only %d eras began in %d storms", eras, seeds)
	}
}
