package gossip_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// has reports whether a node had an event, as "MemberUp{n3:1#3" would print.
func has(node *gossiptest.Node, kind string, id sharding.NodeID) bool {
	return slices.ContainsFunc(node.Events, func(e gossip.Event) bool {
		return strings.HasSuffix(fmt.Sprintf("%T", e), "."+kind) && strings.Contains(fmt.Sprintf("%v", e), id.String())
	})
}

func formed(t *testing.T, seed uint64, n int) *gossiptest.Net {
	t.Helper()
	net := newCluster(t, seed, n)
	startAll(net)
	agree(t, net, 10*time.Second)
	return net
}

func TestCrashedNodeIsSuspectedDownedAndRemoved(t *testing.T) {
	net := formed(t, 1, 4)
	n1, n3, n4 := net.Nodes[0], net.Nodes[2], net.Nodes[3]
	net.Crash(n4)
	began := net.Now
	suspects := func(node *gossiptest.Node) func() bool {
		return func() bool {
			m, _ := node.M.View().Member(n4.ID)
			return !m.ReachableByMe
		}
	}
	if !net.RunUntil(2*time.Second, suspects(n1)) {
		t.Error("the fast profile does not suspect a dead node within 2 s")
	}
	if !net.RunUntil(5*time.Second, suspects(n3)) {
		t.Error("the normal profile does not suspect a dead node within 6 s")
	}
	agree(t, net, 15*time.Second)
	if d := net.Now.Sub(began); d < 10*time.Second {
		t.Errorf("removed after %v, before it was unreachable for 10 s", d)
	}
	for _, kind := range []string{"MemberDowned", "MemberRemoved"} {
		if !has(n1, kind, n4.ID) || !has(n3, kind, n4.ID) {
			t.Errorf("no %s", kind)
		}
	}
}

func TestEvidenceIsBelievedUntilANewerSignOfLife(t *testing.T) {
	net := formed(t, 1, 3)
	n1, n3 := net.Nodes[0], net.Nodes[2]
	reachable := func() bool {
		m, _ := n1.M.View().Member(n3.ID)
		return m.ReachableByMe
	}
	net.Step(n1, gossip.Evidence{Node: sharding.NodeID{Addr: n3.Addr}})
	if reachable() || !has(n1, "NodeGone", n3.ID) {
		t.Fatal("evidence has no effect")
	}
	// A reply to a heartbeat from before the evidence proves nothing.
	net.Step(n1, gossip.Receive{From: n3.ID, To: n1.ID, Msg: gossip.HeartbeatReply{Seq: 1}})
	net.Step(n1, gossip.Tick{})
	if reachable() {
		t.Error("an old reply brought it back")
	}
	if !net.RunUntil(3*time.Second, reachable) {
		t.Error("replies to new heartbeats do not bring it back")
	}
	agree(t, net, 5*time.Second)
}

func TestNewIncarnationReplacesTheOldOneAtOnce(t *testing.T) {
	net := formed(t, 1, 4)
	n4 := net.Nodes[3]
	old := n4.ID
	net.Crash(n4)
	net.Start(n4)
	if d := agree(t, net, 8*time.Second); d > 4*time.Second {
		t.Errorf("took %v", d)
	}
	if !has(net.Nodes[0], "NewIncarnation", old) || !has(net.Nodes[0], "MemberRemoved", old) {
		t.Error("the old incarnation was not replaced")
	}
}

// A request to join that was in progress while a newer incarnation came in must
// not cost that one its membership.
func TestStaleJoinDownsNobody(t *testing.T) {
	net := formed(t, 1, 4)
	n1, n4 := net.Nodes[0], net.Nodes[3]
	ghost := sharding.NodeID{Addr: n4.Addr, UID: 4711}
	net.Step(n1, gossip.Receive{From: ghost, To: n1.ID, Msg: gossip.Join{Name: "ghost"}})
	net.Run(3 * time.Second)
	if n4.Downed != 0 || net.Agreed() != nil {
		t.Errorf("downed %d times; %v", n4.Downed, net.Agreed())
	}
	// Let in while the address was free, the ghost gives way to the living.
	ghost = sharding.NodeID{Addr: "n9:1", UID: 4712}
	net.Step(n1, gossip.Receive{From: ghost, To: n1.ID, Msg: gossip.Join{Name: "ghost"}})
	cfg := gossip.DefaultConfig()
	cfg.Seeds = []string{"n1:1", "n2:1"}
	net.Start(net.Add("n9:1", cfg))
	agree(t, net, 8*time.Second)
}

func TestGracefulLeave(t *testing.T) {
	net := formed(t, 1, 4)
	n3, n4 := net.Nodes[2], net.Nodes[3]
	net.Step(n4, gossip.Leave{})
	agree(t, net, 8*time.Second)
	if !n4.HasLeft || n4.Downed != 0 {
		t.Error("the node did not leave gracefully")
	}
	for _, kind := range []string{"MemberLeaving", "MemberExited", "MemberRemoved"} {
		if !has(n3, kind, n4.ID) {
			t.Errorf("no %s", kind)
		}
	}
	if has(n3, "MemberDowned", n4.ID) {
		t.Error("a graceful leave downs")
	}
	// All together, and the last one alone.
	for _, node := range net.Nodes {
		net.Step(node, gossip.Leave{})
	}
	if !net.RunUntil(10*time.Second, func() bool {
		return net.Nodes[0].HasLeft && net.Nodes[1].HasLeft && net.Nodes[2].HasLeft
	}) {
		t.Error("not all could leave")
	}
}

// TestLeaveWithoutAgreement: a node that leaves while a crashed member is not declared down waits for it as long as
// downing may take, but not forever.
func TestLeaveWithoutAgreement(t *testing.T) {
	net := gossiptest.New(1)
	for i := range 3 {
		cfg := gossip.DefaultConfig()
		cfg.Seeds, cfg.Downing = []string{"n1:1"}, nil
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	startAll(net)
	agree(t, net, 10*time.Second)
	n1, n3 := net.Nodes[0], net.Nodes[2]
	net.Crash(n1)
	net.Run(3 * time.Second)
	net.Step(n3, gossip.Leave{})
	limit := gossip.DefaultConfig().LeaveTimeout
	net.Run(limit - time.Second)
	if n3.HasLeft {
		t.Error("it does not wait for the crashed member to be declared down")
	}
	net.Run(2 * time.Second)
	if !n3.HasLeft || n3.Downed != 0 {
		t.Error("it waits forever")
	}
}

func TestLeaveBeforeJoining(t *testing.T) {
	net := newCluster(t, 1, 3)
	net.Start(net.Nodes[2])
	net.Step(net.Nodes[2], gossip.Leave{})
	if !net.Nodes[2].HasLeft {
		t.Error("a node that is in no cluster cannot leave")
	}
}

// A node that was paused suspects no other node when it wakes up.
func TestOwnPauseSuspectsNobody(t *testing.T) {
	net := formed(t, 1, 4)
	n1 := net.Nodes[0] // with the fast profile
	net.Pause(n1)
	net.Run(6 * time.Second) // less than downing takes
	before := len(n1.Events)
	net.Resume(n1)
	net.Run(3 * time.Second)
	for _, e := range n1.Events[before:] {
		if r, ok := e.(gossip.ReachabilityChanged); ok && r.ByMe && !r.Reachable {
			t.Errorf("after its own pause it suspects %v", r.Node)
		}
	}
	agree(t, net, 5*time.Second)
}

// A node that was declared down while it could not hear it stops when it does.
func TestDownedNodeLearnsIt(t *testing.T) {
	net := formed(t, 1, 4)
	n4 := net.Nodes[3]
	net.Pause(n4)
	net.Run(25 * time.Second)
	if err := net.Agreed(); err == nil {
		t.Fatal("the others still count it in")
	}
	net.Resume(n4)
	if !net.RunUntil(5*time.Second, func() bool { return n4.M == nil }) || n4.Downed != 1 {
		t.Fatal("it does not learn that it is down")
	}
	agree(t, net, 5*time.Second)
	net.Start(n4)
	agree(t, net, 10*time.Second)
}

func TestDownByHand(t *testing.T) {
	net := formed(t, 1, 3)
	n2, n3 := net.Nodes[1], net.Nodes[2]
	net.Step(n2, gossip.DownNode{Node: n3.ID})
	agree(t, net, 15*time.Second)
	if n3.Downed != 1 {
		t.Error("the node did not hear that it is down")
	}
	net.Step(n2, gossip.DownNode{Node: n2.ID})
	if n2.Downed != 1 {
		t.Error("a node cannot down itself")
	}
	agree(t, net, 15*time.Second)
}

func cluster(node *gossiptest.Node) gossip.Founding { return node.M.View().Cluster }

func TestRestartedSeedsJoinTheirCluster(t *testing.T) {
	for name, restarted := range map[string][]int{"first": {0}, "both": {0, 1}} {
		for _, away := range []time.Duration{0, time.Second, 30 * time.Second} {
			t.Run(fmt.Sprint(name, " after ", away), func(t *testing.T) {
				net := formed(t, 1, 5)
				was := cluster(net.Nodes[4])
				for _, i := range restarted {
					net.Crash(net.Nodes[i])
				}
				net.Run(away)
				for _, i := range restarted {
					net.Start(net.Nodes[i])
				}
				agree(t, net, 20*time.Second)
				for _, node := range net.Nodes {
					if cluster(node) != was || node.Downed > 0 {
						t.Errorf("%v is in cluster %v, was %v; downed %d times", node.ID, cluster(node), was, node.Downed)
					}
				}
			})
		}
	}
}

// A first seed that comes back while it is cut off forms a cluster of its own.
// When they meet, the older cluster stays.
func TestYoungerClusterGivesWay(t *testing.T) {
	net := formed(t, 1, 5)
	was := cluster(net.Nodes[4])
	for _, node := range net.Nodes {
		node.RestartAfter = 500 * time.Millisecond
	}
	net.Crash(net.Nodes[0])
	net.Split([]string{"n1:1"}, []string{"n2:1", "n3:1", "n4:1", "n5:1"})
	net.Run(20 * time.Second)
	net.Start(net.Nodes[0])
	net.Run(10 * time.Second)
	if cluster(net.Nodes[0]) == was || !net.Nodes[0].M.View().InCluster {
		t.Fatal("a first seed that finds no other node should form a cluster")
	}
	net.Heal()
	net.Run(time.Second) // they meet
	agree(t, net, 20*time.Second)
	for i, node := range net.Nodes {
		if cluster(node) != was || i > 0 && node.Downed > 0 {
			t.Errorf("%v is in cluster %v, was %v; downed %d times", node.ID, cluster(node), was, node.Downed)
		}
	}
}

// Two halves that downed each other: the one with the oldest member stays.
func TestJuniorHalfGivesWay(t *testing.T) {
	net := formed(t, 1, 5)
	for _, node := range net.Nodes {
		node.RestartAfter = 500 * time.Millisecond
	}
	net.Split([]string{"n1:1", "n5:1"}, []string{"n2:1", "n3:1", "n4:1"})
	net.Run(30 * time.Second)
	for _, node := range net.Nodes {
		if v := node.M.View(); !v.Converged {
			t.Errorf("%v did not settle in its half", node.ID)
		}
	}
	net.Heal()
	net.Run(time.Second) // they meet
	agree(t, net, 20*time.Second)
	for i, node := range net.Nodes {
		if stays := i == 0 || i == 4; stays != (node.Downed == 0) {
			t.Errorf("%v was downed %d times", node.ID, node.Downed)
		}
	}
}

// A member that was paused until the others had removed it ends when it continues, whatever it hears
// first, and no other node does. That it was the oldest member does not matter, nor that it does not know
// who tells it.
func TestRemovedWhilePausedEndsAlone(t *testing.T) {
	if why := usurped(t); why != "" {
		t.Error(why)
	}
}

// usurped pauses a member, restarts another one meanwhile, and resumes the first at several moments around
// its removal. Nothing that was sent to it meanwhile is left. It returns what is wrong afterwards.
func usurped(t *testing.T) string {
	for _, paused := range []int{0, 1} { // the oldest, and another one
		for late := -500 * time.Millisecond; late <= 500*time.Millisecond; late += 50 * time.Millisecond {
			net := formed(t, 1, 4)
			p, restarted := net.Nodes[paused], net.Nodes[2]
			id := p.ID
			net.Pause(p)
			others := slices.DeleteFunc(slices.Clone(net.Nodes), func(n *gossiptest.Node) bool { return n == p })
			var addrs []string
			for _, n := range others {
				addrs = append(addrs, n.Addr)
			}
			net.Split([]string{p.Addr}, addrs)
			net.Crash(restarted)
			net.Start(restarted)
			removed := func() bool {
				return !slices.ContainsFunc(others, func(n *gossiptest.Node) bool {
					_, member := n.M.View().Member(id)
					return member
				})
			}
			const usual = 11500 * time.Millisecond // about how long it takes to remove it
			if late < 0 {
				net.Run(usual + late)
			} else if !net.RunUntil(2*usual, removed) {
				t.Fatal("it is not removed")
			} else {
				net.Run(late)
			}
			net.Heal()
			net.Resume(p)
			net.Run(5 * time.Second)
			for _, n := range others {
				if n.Downed > 0 {
					return fmt.Sprintf("%v ends because %v continues %v after its removal", n.ID, id, late)
				}
			}
			if late >= 0 && p.M != nil {
				t.Errorf("%v continues %v after its removal", id, late)
			}
		}
	}
	return ""
}

func TestSecondSeedNeverFormsACluster(t *testing.T) {
	net := newCluster(t, 1, 3)
	net.Start(net.Nodes[1])
	net.Start(net.Nodes[2])
	net.Run(time.Minute)
	for _, node := range net.Nodes[1:] {
		if node.M.View().InCluster {
			t.Errorf("%v is in a cluster", node.ID)
		}
	}
	net.Start(net.Nodes[0])
	agree(t, net, 10*time.Second)
}

func TestOldestFirst(t *testing.T) {
	net := formed(t, 1, 4)
	v := net.Nodes[3].M.View()
	if all := v.OldestFirst("coordinator"); len(all) == 0 || all[0].Name != "node-1" {
		t.Errorf("coordinators, oldest first: %+v", all)
	}
	for i, node := range net.Nodes[:2] {
		if got := v.Rank("coordinator", node.ID, sharding.NodeID{}); got != i {
			t.Errorf("%v has rank %d", node.ID, got)
		}
	}
	if got := v.Rank("coordinator", net.Nodes[3].ID, sharding.NodeID{}); got != 2 {
		t.Errorf("a region has rank %d among 2 coordinators", got)
	}
	// A coordinator that comes back is the youngest.
	net.Crash(net.Nodes[0])
	net.Start(net.Nodes[0])
	agree(t, net, 10*time.Second)
	v = net.Nodes[3].M.View()
	if got := v.Rank("coordinator", net.Nodes[0].ID, sharding.NodeID{}); got != 1 {
		t.Errorf("after its restart it has rank %d", got)
	}
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	net := formed(t, 1, 3)
	n1, n2 := net.Nodes[0], net.Nodes[1]
	bad := gossip.State{Members: []*gossip.Member{{}}}
	for _, msg := range []gossip.Msg{
		gossip.Gossip{State: bad}, gossip.Join{Name: strings.Repeat("x", 1000)}, gossip.Join{Roles: []string{"b", "a"}},
		gossip.GossipStatus{Parts: make([]uint32, 3)}, nil,
	} {
		net.Step(n1, gossip.Receive{From: sharding.NodeID{Addr: "x:1", UID: 5}, To: n1.ID, Msg: msg})
	}
	refused := 0
	for _, e := range n1.Events {
		if _, ok := e.(gossip.Refused); ok {
			refused++
		}
	}
	if refused != 4 {
		t.Errorf("%d messages refused, want 4", refused)
	}
	net.Step(n1, gossip.Receive{From: n2.ID, To: n1.ID, Msg: gossip.HeartbeatReply{Seq: 1 << 60}})
	net.Step(n1, gossip.Evidence{Node: sharding.NodeID{Addr: "nobody:1"}})
	net.Step(n1, gossip.DownNode{Node: sharding.NodeID{Addr: "nobody:1", UID: 1}})
	net.Step(n1, gossip.Start{})
	net.Run(time.Second)
	if err := net.Agreed(); err != nil {
		t.Error(err)
	}
}

// In peace there is little to say: the cost of a calm cluster is its
// heartbeats and one status per node and second.
func TestCalmClusterIsQuiet(t *testing.T) {
	net := formed(t, 1, 5)
	net.Run(3 * time.Second)
	clear(net.Sent)
	net.Run(10 * time.Second)
	if n := net.Sent["gossip.Gossip"]; n != 0 {
		t.Errorf("%d full states sent", n)
	}
	if n := net.Sent["gossip.GossipStatus"]; n > 80 { // one each per second, and some more to the seeds
		t.Errorf("%d status messages of 5 nodes in 10 s", n)
	}
}

func TestSameSeedSameRun(t *testing.T) {
	run := func() string {
		var trace strings.Builder
		net := newCluster(t, 7, 4)
		net.Climate = gossiptest.Storm()
		net.Trace = func(format string, args ...any) { fmt.Fprintf(&trace, format+"\n", args...) }
		startAll(net)
		net.Run(30 * time.Second)
		for _, node := range net.Nodes {
			fmt.Fprintf(&trace, "%x\n", node.M.AppendState(nil))
		}
		return trace.String()
	}
	if a, b := run(), run(); a != b {
		t.Error("two runs with the same seed differ")
	}
}

func TestClonesAreIndependent(t *testing.T) {
	net := formed(t, 1, 3)
	n1 := net.Nodes[0]
	before := n1.M.AppendState(nil)
	clone := n1.M.Clone()
	if string(clone.AppendState(nil)) != string(before) {
		t.Error("a clone has another state")
	}
	later := net.Now.Add(100 * time.Millisecond)
	a := fmt.Sprint(n1.M.Step(later, gossip.DownNode{Node: net.Nodes[2].ID}, nil))
	if string(clone.AppendState(nil)) != string(before) {
		t.Error("stepping the original changes the clone")
	}
	if b := fmt.Sprint(clone.Step(later, gossip.DownNode{Node: net.Nodes[2].ID}, nil)); a != b {
		t.Errorf("the same step gives %v and %v", a, b)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	cfg := gossip.DefaultConfig()
	cfg.Self = sharding.NodeID{Addr: "a:1", UID: 1}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	err := gossip.Config{Seeds: []string{""}}.Validate()
	for _, field := range []string{"Self", "Seeds", "Watch.Interval", "LateTick", "Watch.Phi", "MaxMembers"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error does not name %s: %v", field, err)
		}
	}
}
