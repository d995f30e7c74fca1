package gossip_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// statuses counts the members that a node sees, by status.
func statuses(node *gossiptest.Node) map[gossip.Status]int {
	n := map[gossip.Status]int{}
	for _, m := range node.M.View().Members {
		n[m.Status]++
	}
	return n
}

func TestNobodyComesUpBeforeThereAreEnough(t *testing.T) {
	net := gossiptest.New(1)
	for i := range 4 {
		cfg := gossip.DefaultConfig()
		cfg.Seeds = []string{"n1:1"}
		cfg.Roles = []string{[]string{"coordinator", "coordinator", "region", "region"}[i]}
		cfg.MinMembers, cfg.MinOfRole = 2, []gossip.RoleMinimum{{Role: "region", Members: 2}}
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	for i, node := range net.Nodes[:3] {
		net.Start(node)
		net.Run(20 * time.Second)
		if got := statuses(net.Nodes[0]); got[gossip.Joining] != i+1 {
			t.Fatalf("with %d nodes, before there are two regions: %v", i+1, got)
		}
	}
	net.Start(net.Nodes[3])
	agree(t, net, 5*time.Second)
	if all := net.Nodes[0].M.View().OldestFirst(""); len(all) == 0 || all[0].UpNumber != 1 {
		t.Errorf("oldest first: %+v", all)
	}
	// Enough members are required for coming up, not for staying up.
	net.Crash(net.Nodes[3])
	if !net.RunUntil(40*time.Second, func() bool { return net.Agreed() == nil }) {
		t.Error(net.Agreed())
	}
}

// While a member is unreachable, joiners become weakly up, and up as soon as
// that is over.
func TestWeaklyUp(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Second} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) { weaklyUp(t, after) })
	}
}

func weaklyUp(t *testing.T, after time.Duration) {
	net := gossiptest.New(1)
	for i := range 4 {
		cfg := gossip.DefaultConfig()
		cfg.Seeds = []string{"n1:1"}
		cfg.Downing, cfg.WeaklyUpAfter = nil, after
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	n1, n3, n4 := net.Nodes[0], net.Nodes[2], net.Nodes[3]
	for _, node := range net.Nodes[:3] {
		net.Start(node)
	}
	agree(t, net, 10*time.Second)
	net.Crash(n3)
	net.Run(10 * time.Second)
	net.Start(n4)
	net.Run(2 * time.Second)
	if m, _ := n1.M.View().Member(n4.ID); m.Status != gossip.Joining && after == 0 {
		t.Fatalf("%v is %v", n4.ID, m.Status)
	}
	net.Run(10 * time.Second)
	want := map[bool]gossip.Status{true: gossip.Joining, false: gossip.WeaklyUp}[after == 0]
	for _, node := range []*gossiptest.Node{n1, n4} {
		v := node.M.View()
		if m, _ := v.Member(n4.ID); m.Status != want || m.UpNumber != 0 {
			t.Fatalf("%v sees %v %v with up number %d, want %v", node.ID, n4.ID, m.Status, m.UpNumber, want)
		}
		if v.Rank("", n4.ID, sharding.NodeID{}) != len(v.OldestFirst("")) {
			t.Error("who is not up has a rank")
		}
	}
	if (want == gossip.WeaklyUp) != has(n1, "MemberWeaklyUp", n4.ID) {
		t.Error("the event does not tell it")
	}
	net.Step(n1, gossip.DownNode{Node: n3.ID})
	agree(t, net, 5*time.Second)
}

func TestMemberFieldsReachAll(t *testing.T) {
	net := gossiptest.New(1)
	for i := range 3 {
		cfg := gossip.DefaultConfig()
		cfg.Seeds = []string{"n1:1"}
		cfg.Name, cfg.Zone, cfg.Version = fmt.Sprint("node-", i), fmt.Sprint("zone-", i), fmt.Sprint("1.", i)
		net.Start(net.Add(fmt.Sprintf("n%d:1", i+1), cfg))
	}
	agree(t, net, 10*time.Second)
	for i, m := range net.Nodes[2].M.View().Members {
		if m.Name != fmt.Sprint("node-", i) || m.Zone != fmt.Sprint("zone-", i) || m.Version != fmt.Sprint("1.", i) {
			t.Errorf("member %+v", m.Member)
		}
	}
}
