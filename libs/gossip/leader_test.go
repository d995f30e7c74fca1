package gossip_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// leaders are whom the living take for the leader.
func leaders(net *gossiptest.Net) (all []string) {
	for _, node := range net.Nodes {
		if node.M == nil {
			continue
		}
		if l := node.M.View().Leader.Addr; !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// TestLeadersFollowOneAnother: there is one leader, the first by address, after
// two have crashed and one has left, until the last node is alone and leaves too.
func TestLeadersFollowOneAnother(t *testing.T) {
	net := formed(t, 1, 5)
	for i, gone := range net.Nodes {
		want := gone.ID.Addr
		if got := leaders(net); len(got) != 1 || got[0] != want {
			t.Fatalf("the leaders are %v, want %v", got, want)
		}
		if i < 2 {
			net.Crash(gone)
		} else {
			net.Step(gone, gossip.Leave{})
			if !net.RunUntil(10*time.Second, func() bool { return gone.HasLeft }) || gone.Downed != 0 {
				t.Fatalf("the leader %v did not leave", gone.ID)
			}
		}
		if i < len(net.Nodes)-1 {
			agree(t, net, 30*time.Second)
		}
	}
}

// TestSlowJoinerIsNotSuspected: a node that is let in beats at once, so that
// no member takes it for unreachable, however long it takes until it may come up;
// then everybody hears that it has.
func TestSlowJoinerIsNotSuspected(t *testing.T) {
	net := gossiptest.New(1)
	for i := range 3 {
		cfg := gossip.DefaultConfig()
		cfg.Seeds, cfg.MinMembers, cfg.Watch = []string{"n1:1"}, 3, gossip.FastProfile()
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	net.Start(net.Nodes[0])
	net.Start(net.Nodes[1])
	net.Run(30 * time.Second)
	if got := statuses(net.Nodes[0]); got[gossip.Joining] != 2 {
		t.Fatalf("of two nodes, where three are needed: %v", got)
	}
	net.Start(net.Nodes[2])
	agree(t, net, 10*time.Second)
	for _, node := range net.Nodes {
		for _, other := range net.Nodes {
			if !has(node, "MemberUp", other.ID) {
				t.Errorf("%v did not hear that %v is up", node.ID, other.ID)
			}
			if has(node, "ReachabilityChanged", other.ID) {
				t.Errorf("%v suspected %v", node.ID, other.ID)
			}
		}
	}
}

// TestWeaklyUpOnBothSides: while the cluster is divided, and no member is
// declared down, each side lets a node in as weakly up. Both come up when the cut heals.
func TestWeaklyUpOnBothSides(t *testing.T) {
	net := gossiptest.New(1)
	for i, seed := range []string{"n1:1", "n1:1", "n1:1", "n1:1", "n1:1", "n3:1"} {
		cfg := gossip.DefaultConfig()
		cfg.Seeds, cfg.Downing, cfg.WeaklyUpAfter = []string{seed}, nil, 3*time.Second
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	for _, node := range net.Nodes[:4] {
		net.Start(node)
	}
	agree(t, net, 10*time.Second)
	net.Split([]string{"n1:1", "n2:1", "n5:1"}, []string{"n3:1", "n4:1", "n6:1"})
	net.Run(10 * time.Second)
	n5, n6 := net.Nodes[4], net.Nodes[5]
	net.Start(n5)
	net.Start(n6)
	net.Run(20 * time.Second)
	for near, joined := range map[*gossiptest.Node]*gossiptest.Node{net.Nodes[0]: n5, net.Nodes[2]: n6} {
		if m, _ := near.M.View().Member(joined.ID); m.Status != gossip.WeaklyUp {
			t.Errorf("in the eyes of %v, %v is %v", near.ID, joined.ID, m.Status)
		}
	}
	net.Heal()
	agree(t, net, 20*time.Second)
}
