package gossip_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// TestDue: in a cluster at rest, ticks are due for heartbeats alone. As soon as a member might be suspected, every
// tick is due.
func TestDue(t *testing.T) {
	for seed := range uint64(10) {
		net := newCluster(t, seed, 4, func(cfg *gossip.Config) { cfg.Watch = gossip.FastProfile() })
		startAll(net)
		agree(t, net, 10*time.Second)
		net.Run(2 * time.Second)
		n1, n4 := net.Node("n1:1"), net.Node("n4:1")
		rested := 0
		for range 100 {
			if net.Run(gossiptest.TickEvery / 10); n1.M.Due().After(net.Now) {
				rested++
			}
		}
		if rested < 30 { // half of the time, with heartbeats every 200 ms
			t.Errorf("seed %d: nothing is due in %d of 100 looks", seed, rested)
		}
		net.Crash(n4)
		suspected := func() bool {
			m, _ := n1.M.View().Member(n4.ID)
			return !m.ReachableByMe
		}
		for soon := net.Now.Add(5 * time.Second); !suspected(); net.Run(10 * time.Millisecond) {
			if net.Now.After(soon) {
				t.Fatalf("seed %d: no member is suspected", seed)
			}
			if m, _ := n1.M.View().Member(n4.ID); m.Phi >= 8 && n1.M.Due().After(net.Now) {
				t.Fatalf("seed %d: phi is %v, and no tick is due for %v", seed, m.Phi, n1.M.Due().Sub(net.Now))
			}
		}
	}
}
