package gossip_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// newCluster is a network with n nodes "n1:1" …, the first two of them seeds.
func newCluster(t *testing.T, seed uint64, n int, change ...func(*gossip.Config)) *gossiptest.Net {
	t.Helper()
	net := gossiptest.New(seed)
	for i := range n {
		cfg := gossip.DefaultConfig()
		cfg.Seeds = []string{"n1:1", "n2:1"}
		cfg.Name = fmt.Sprintf("node-%d", i+1)
		cfg.IgnoreSettings = []string{"gossip.heartbeat_interval", "gossip.acceptable_pause"} // the first two watch faster
		cfg.Roles = []string{"region"}
		if i < 2 {
			cfg.Roles = []string{"coordinator"}
			cfg.Watch = gossip.FastProfile()
		}
		for _, f := range change {
			f(&cfg)
		}
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	return net
}

func startAll(net *gossiptest.Net) {
	for _, node := range net.Nodes {
		net.Start(node)
	}
}

func agree(t *testing.T, net *gossiptest.Net, within time.Duration) time.Duration {
	t.Helper()
	began := net.Now
	if !net.RunUntil(within, func() bool { return net.Agreed() == nil }) {
		t.Fatalf("no agreement within %v: %v", within, net.Agreed())
	}
	return net.Now.Sub(began)
}

func TestClusterForms(t *testing.T) {
	net := newCluster(t, 1, 5)
	startAll(net)
	t.Logf("agreed after %v", agree(t, net, 10*time.Second))
}

// In any weather, with crashes, pauses and cuts, everybody ends in one cluster
// when it calms down.
func TestConvergesAfterStorm(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 5
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { storm(t, seed, false) })
	}
}

// storm is one of them, in a cluster that may forget removed nodes within
// seconds. It returns the number of eras that began.
func storm(t *testing.T, seed uint64, forgets bool) uint64 {
	net := newCluster(t, seed, 5, func(cfg *gossip.Config) {
		if forgets {
			cfg.TombstoneTTL, cfg.Downing = 200*time.Millisecond, gossip.AutoDown{After: 2 * time.Second}
		}
	})
	rng := net.Rand()
	net.Climate = gossiptest.Storm()
	for _, node := range net.Nodes {
		node.RestartAfter = time.Second
	}
	startAll(net)
	for range 40 {
		a, b := net.Nodes[rng.IntN(5)], net.Nodes[rng.IntN(5)]
		switch rng.IntN(8) {
		case 0:
			net.Crash(a)
		case 1:
			if a.M == nil {
				net.Start(a)
			}
		case 2:
			net.Pause(a)
		case 3:
			net.Resume(a)
		case 4:
			net.Cut(a.Addr, b.Addr, true)
		case 5:
			net.Heal()
		case 6:
			if a.M != nil && b.M == nil {
				net.Step(a, gossip.Evidence{Node: b.ID})
			}
		case 7:
			if rng.IntN(4) == 0 {
				net.Step(a, gossip.Leave{})
			}
		}
		net.Run(time.Duration(rng.IntN(3000)) * time.Millisecond)
		if forgets && rng.IntN(4) == 0 {
			net.Run(15 * time.Second)
		}
	}
	net.Climate = gossiptest.Calm()
	net.Heal()
	for _, node := range net.Nodes {
		net.Resume(node)
		if node.M == nil {
			net.Start(node)
		}
	}
	net.Run(40 * time.Second)
	for _, node := range net.Nodes { // who was leaving is gone now
		if node.M == nil {
			net.Start(node)
		}
	}
	if !net.RunUntil(40*time.Second, func() bool { return net.Agreed() == nil }) {
		t.Fatalf("seed %d: %v", seed, net.Agreed())
	}
	return net.Nodes[0].M.Era().Number
}

// TestNodesThatWait form nothing on their own, and join a cluster that shows
// itself: through given seeds, or because it announces itself.
func TestNodesThatWait(t *testing.T) {
	net := gossiptest.New(1)
	for i := range 3 {
		cfg := gossip.DefaultConfig()
		cfg.DriverDecides = true
		net.Add(fmt.Sprintf("n%d:1", i+1), cfg)
	}
	startAll(net)
	n1, n2, n3 := net.Nodes[0], net.Nodes[1], net.Nodes[2]
	net.Run(20 * time.Second)
	for _, node := range net.Nodes {
		if node.M.View().InCluster {
			t.Errorf("%s is in a cluster", node.Addr)
		}
	}
	net.Step(n1, gossip.Form{})
	net.Step(n2, gossip.SetSeeds{Seeds: []string{"n1:1"}})
	net.Run(time.Second)
	net.Step(n1, gossip.SetSeeds{Seeds: []string{"n3:1"}}) // announces the cluster there
	agree(t, net, 10*time.Second)
	cluster := n3.M.View().Cluster
	net.Step(n2, gossip.Form{})
	net.Crash(n2)
	net.Start(n2) // the others still send to the one before it
	net.Run(time.Second)
	net.Step(n2, gossip.Form{})
	agree(t, net, 20*time.Second)
	if n2.M.View().Cluster != cluster {
		t.Error("a member that came back formed another cluster")
	}
}
