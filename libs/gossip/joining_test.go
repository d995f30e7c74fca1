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

// event is the last event of a type that a node told.
func event[E gossip.Event](node *gossiptest.Node) (last E, found bool) {
	for _, e := range node.Events {
		if e, ok := e.(E); ok {
			last, found = e, true
		}
	}
	return last, found
}

// pair is a cluster of two, and a third node that is not started, configured
// by configure.
func pair(t *testing.T, configure func(*gossip.Config)) (*gossiptest.Net, *gossiptest.Node) {
	t.Helper()
	net := gossiptest.New(1)
	for i := range 3 {
		cfg := gossip.DefaultConfig()
		cfg.Seeds = []string{"n1:1"}
		if i == 2 {
			configure(&cfg)
		}
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	net.Start(net.Nodes[0])
	net.Start(net.Nodes[1])
	agree(t, net, 10*time.Second)
	return net, net.Nodes[2]
}

func TestDifferentSettingsAreRefused(t *testing.T) {
	differently := func(cfg *gossip.Config) {
		cfg.Downing, cfg.MinMembers = gossip.AutoDown{After: time.Minute}, 2
	}
	net, n3 := pair(t, differently)
	net.Start(n3)
	net.Run(5 * time.Second)
	failed, ok := event[gossip.JoinFailed](n3)
	want := `downing is "auto-down after 1m0s" at the joining node and "auto-down after 10s" in the cluster; ` +
		`min-members is "2" at the joining node and "1" in the cluster`
	if !ok || !strings.Contains(failed.Reason, want) || n3.M != nil {
		t.Errorf("told %q, want %q", failed.Reason, want)
	}
	if len(net.Nodes[0].M.View().Members) != 2 {
		t.Error("let in all the same")
	}

	net, n3 = pair(t, func(cfg *gossip.Config) { differently(cfg); cfg.RetryRefused = true })
	net.Start(n3)
	net.Run(20 * time.Second)
	if n3.M == nil || !strings.Contains(n3.M.View().Refusal, want) || n3.M.View().InCluster {
		t.Errorf("one that is to go on asking: %+v", n3.M)
	}

	net, n3 = pair(t, func(cfg *gossip.Config) {
		differently(cfg)
		cfg.IgnoreSettings = []string{"downing", "min-members"}
	})
	net.Start(n3)
	agree(t, net, 5*time.Second)
	if v := n3.M.View(); v.Refusal != "" {
		t.Errorf("a member still has the refusal %q", v.Refusal)
	}
}

func TestFullClustersSaySo(t *testing.T) {
	net := gossiptest.New(1)
	for i := range 3 {
		cfg := gossip.DefaultConfig()
		cfg.Seeds, cfg.MaxMembers, cfg.JoinGiveUp = []string{"n1:1"}, 2, 30*time.Second
		net.Start(net.Add(fmt.Sprintf("n%d:1", i+1), cfg))
		net.Run(8 * time.Second)
	}
	n3 := net.Nodes[2]
	if got := n3.M.View().Refusal; !strings.Contains(got, "the cluster has 2 members") {
		t.Errorf("the refusal is %q", got)
	}
	told := 0
	for _, e := range n3.Events {
		if _, ok := e.(gossip.JoinRejected); ok {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	net.Run(25 * time.Second)
	failed, ok := event[gossip.JoinFailed](n3)
	if !ok || n3.M != nil || !strings.Contains(failed.Reason, "not admitted within 30s") || !strings.Contains(failed.Reason, "2 members") {
		t.Errorf("gave up with %q", failed.Reason)
	}
}

func TestJoiningIsGivenUp(t *testing.T) {
	for _, giveUp := range []time.Duration{0, 10 * time.Second} {
		net := gossiptest.New(1)
		cfg := gossip.DefaultConfig()
		cfg.Seeds, cfg.JoinGiveUp = []string{"nobody:1", "none:1"}, giveUp
		node := net.Add("n1:1", cfg)
		net.Start(node)
		net.Run(10 * time.Minute)
		failed, ok := event[gossip.JoinFailed](node)
		if ok != (giveUp > 0) || ok && failed.Reason != "not admitted within 10s; no member answered at nobody:1, none:1" {
			t.Errorf("to give up after %v: %v, %q", giveUp, ok, failed.Reason)
		}
	}
}

func TestExplicitJoinWinsOverSeeds(t *testing.T) {
	net, n3 := pair(t, func(cfg *gossip.Config) { cfg.Seeds = []string{"n3:1", "nobody:1"} })
	net.Start(n3)
	net.Step(n3, gossip.JoinVia{Addr: "n2:1"})
	agree(t, net, 10*time.Second)
	if got := cluster(n3); got != cluster(net.Nodes[0]) {
		t.Errorf("it is in %v", got)
	}
	net.Step(n3, gossip.JoinVia{Addr: "elsewhere:1"}) // too late
	net.Run(5 * time.Second)
	if err := net.Agreed(); err != nil {
		t.Error(err)
	}
	// To its own address is to form a cluster.
	cfg := gossip.DefaultConfig()
	cfg.Seeds = []string{"nobody:1"}
	n4 := net.Add("n4:1", cfg)
	net.Start(n4)
	net.Step(n4, gossip.JoinVia{Addr: "n4:1"})
	if v := n4.M.View(); !v.InCluster || v.Members[0].Status != gossip.Up {
		t.Errorf("it sees %+v", v)
	}
}

func TestLeaveByRequest(t *testing.T) {
	net := formed(t, 1, 4)
	n2, n4 := net.Nodes[1], net.Nodes[3]
	net.Step(n2, gossip.LeaveNode{Node: n4.ID})
	net.Step(n2, gossip.LeaveNode{Node: sharding.NodeID{Addr: "nobody:1", UID: 1}})
	net.Run(time.Second)
	agree(t, net, 10*time.Second)
	if asked, ok := event[gossip.LeaveRequested](n4); !ok || asked.By != n2.ID || !n4.HasLeft || n4.Downed > 0 {
		t.Errorf("asked by %v; left %v, downed %d times", asked.By, n4.HasLeft, n4.Downed)
	}
	net.Step(n2, gossip.LeaveNode{Node: n2.ID})
	net.Run(time.Second)
	agree(t, net, 10*time.Second)
	if !n2.HasLeft {
		t.Error("a node cannot ask itself")
	}
}

// A member is removed at once, and its incarnation never comes back.
func TestRemovedAtOnce(t *testing.T) {
	net := formed(t, 1, 5)
	n1, n4, n5 := net.Nodes[0], net.Nodes[3], net.Nodes[4]
	net.Crash(n5)
	net.Cut(n4.Addr, n1.Addr, true) // so that there is no convergence
	net.Run(8 * time.Second)
	net.Step(n1, gossip.RemoveNode{Node: n5.ID})
	if _, ok := n1.M.View().Member(n5.ID); ok || !has(n1, "MemberRemoved", n5.ID) {
		t.Fatal("still a member")
	}
	net.Heal()
	agree(t, net, 15*time.Second)
	// One that lives and does not know stops.
	net.Step(n1, gossip.RemoveNode{Node: n4.ID})
	agree(t, net, 15*time.Second)
	if n4.Downed != 1 {
		t.Errorf("%v continues", n4.ID)
	}
	for _, dead := range []sharding.NodeID{n4.ID, n5.ID} {
		net.Step(n1, gossip.Receive{From: dead, To: n1.ID, Msg: gossip.Join{Name: "again"}})
		net.Run(2 * time.Second)
		if _, ok := n1.M.View().Member(dead); ok {
			t.Errorf("%v comes back", dead)
		}
	}
	net.Step(n1, gossip.RemoveNode{Node: n1.ID})
	if n1.Downed != 1 {
		t.Error("a node that removes itself continues")
	}
}

// A joiner whose address answers as a member is refused, also once the address
// is free: what it sent is a message from the past.
func TestContradictionsAreBanned(t *testing.T) {
	if why := ghost(t); why != "" {
		t.Error(why)
	}
}

func ghost(t *testing.T) string {
	net := formed(t, 1, 4)
	n1, n4 := net.Nodes[0], net.Nodes[3]
	late := gossip.Receive{From: sharding.NodeID{Addr: n4.Addr, UID: 4711}, To: n1.ID, Msg: gossip.Join{Name: "ghost"}}
	net.Step(n1, late)
	net.Run(3 * time.Second)
	net.Step(n4, gossip.Leave{})
	net.Run(10 * time.Second)
	net.Step(n1, late)
	v := n1.M.View()
	if _, ok := v.Member(late.From); ok {
		return "a ghost is let in"
	}
	if len(v.Banned) != 1 || v.Banned[0].Node != late.From || !has(n1, "Banned", late.From) {
		t.Errorf("the view has %+v", v.Banned)
	}
	twin := sharding.NodeID{Addr: "twin:1", UID: net.Nodes[1].ID.UID}
	net.Step(n1, gossip.Receive{From: twin, To: n1.ID, Msg: gossip.Join{Name: "twin"}})
	if v := n1.M.View(); len(v.Banned) != 2 || len(v.Members) != 3 {
		t.Errorf("with a second node of one uid: %+v", v)
	}
	n1.M.Step(net.Now.Add(25*time.Hour), gossip.Tick{}, nil)
	if v := n1.M.View(); len(v.Banned) != 0 {
		t.Error("kept forever")
	}
	return ""
}

// A node that refuses another one is in a cluster, so the refused node forms none, even
// on request.
func TestRefusedNodeFormsNoCluster(t *testing.T) {
	differently := func(cfg *gossip.Config) { cfg.MinMembers, cfg.RetryRefused = 2, true }
	net, waiting := pair(t, func(cfg *gossip.Config) { differently(cfg); cfg.DriverDecides = true })
	net.Start(waiting)
	net.Step(waiting, gossip.SetSeeds{Seeds: []string{"n1:1"}})
	net.Run(time.Second) // it is refused
	net.Climate.Loss = 0.1
	for range 1200 {
		net.Run(100 * time.Millisecond)
		net.Step(waiting, gossip.Form{})
		if waiting.M.View().InCluster {
			t.Fatalf("formed a cluster in addition to the one that refused it at %v", net.Now)
		}
	}
	net.Crash(net.Nodes[0])
	net.Crash(net.Nodes[1])
	net.Run(gossip.DefaultConfig().SeedTimeout + gossip.DefaultConfig().JoinTimeout)
	net.Step(waiting, gossip.Form{})
	if !waiting.M.View().InCluster {
		t.Error("waits for a cluster that is no more")
	}
}

// A refusal that comes when the node already asks another one still shows a
// cluster.
func TestLateRefusalIsASignOfACluster(t *testing.T) {
	cfg := gossip.DefaultConfig()
	cfg.Self, cfg.Seeds = sharding.NodeID{Addr: "n1:1", UID: 1}, []string{"n1:1", "n2:1"}
	m, now := gossip.New(cfg), time.Unix(1000, 0)
	n2 := sharding.NodeID{Addr: "n2:1", UID: 2}
	step := func(in gossip.Input) { m.Step(now, in, nil) }
	step(gossip.Start{})
	step(gossip.Receive{From: n2, Msg: gossip.InitJoinAck{}})
	for range 200 {
		now = now.Add(100 * time.Millisecond)
		step(gossip.Tick{})
		step(gossip.Receive{From: n2, Msg: gossip.JoinRefused{Reason: "full"}})
		if m.View().InCluster {
			t.Fatal("formed a cluster although one refuses it again and again")
		}
	}
}

// TestPausedJoinerDoesNotAskTheDead: a node is paused while it looks for a cluster. The first thing that it handles
// afterwards is an old answer. It asks that member to join for JoinTimeout, and not for as long as the pause lasted:
// the member may have died meanwhile.
func TestPausedJoinerDoesNotAskTheDead(t *testing.T) {
	if why := stuck(t); why != "" {
		t.Error(why)
	}
}

func stuck(t *testing.T) string {
	cfg := gossip.DefaultConfig()
	cfg.Self, cfg.Seeds = sharding.NodeID{Addr: "n2:1", UID: 2}, []string{"n1:1"}
	dead := sharding.NodeID{Addr: "n1:1", UID: 1}
	m, now := gossip.New(cfg), time.Unix(1_000_000, 0)
	asks := func(in gossip.Input) (joins, seeds bool) {
		for _, o := range m.Step(now, in, nil) {
			if s, ok := o.(gossip.Send); ok {
				_, join := s.Msg.(gossip.Join)
				_, init := s.Msg.(gossip.InitJoin)
				joins, seeds = joins || join && s.To == dead, seeds || init && s.To.Addr == dead.Addr
			}
		}
		return joins, seeds
	}
	tick := func() bool {
		now = now.Add(cfg.LateTick / 4)
		_, seeds := asks(gossip.Tick{})
		return seeds
	}
	asks(gossip.Start{})
	tick()
	now = now.Add(time.Hour)
	seniority := gossip.Seniority{Cluster: gossip.Founding{Founded: 1, Founder: dead.UID}, OldestNode: dead}
	if joins, _ := asks(gossip.Receive{From: dead, To: cfg.Self, Msg: gossip.InitJoinAck{Seniority: seniority}}); !joins {
		t.Fatal("it does not ask the member that answered")
	}
	for end := now.Add(cfg.JoinTimeout + cfg.JoinInterval); now.Before(end); {
		if tick() {
			return ""
		}
	}
	return "after its own pause it asks no other node for longer than JoinTimeout"
}
