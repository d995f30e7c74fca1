package gossip_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// TestDetectors: whichever detector watches, a crashed member is suspected about
// at the time of its profile, and no other member is.
func TestDetectors(t *testing.T) {
	for _, c := range []struct {
		fast        bool
		detector    string
		least, most time.Duration // from the crash on
	}{
		{true, "phi", 800 * time.Millisecond, 1600 * time.Millisecond},
		{true, "cloud", 800 * time.Millisecond, 1700 * time.Millisecond},
		{true, "deadline", 700 * time.Millisecond, 1200 * time.Millisecond},
		{false, "phi", 3 * time.Second, 5500 * time.Millisecond},
		{false, "cloud", 3 * time.Second, 6 * time.Second},
		{false, "deadline", 2900 * time.Millisecond, 4300 * time.Millisecond},
	} {
		profile, err := gossip.ProfileOf(c.fast, c.detector)
		if err != nil {
			t.Fatal(err)
		}
		net := gossiptest.New(7)
		for _, addr := range []string{"n1:1", "n2:1", "n3:1"} {
			cfg := gossip.DefaultConfig()
			cfg.Seeds, cfg.Watch = []string{"n1:1"}, profile
			net.Add(addr, cfg)
		}
		startAll(net)
		agree(t, net, 10*time.Second)
		net.Run(20 * time.Second)
		if err := net.Agreed(); err != nil {
			t.Errorf("fast %v, %s: in calm weather: %v", c.fast, c.detector, err)
		}
		net.Crash(net.Nodes[2])
		began := net.Now
		suspected := func() bool {
			for _, n := range net.Nodes[:2] {
				v := n.M.View()
				if m, ok := v.Member(net.Nodes[2].ID); ok && m.Reachable {
					return false
				}
			}
			return true
		}
		net.RunUntil(20*time.Second, suspected)
		if took := net.Now.Sub(began); took < c.least || took > c.most {
			t.Errorf("fast %v, %s: suspected after %v, want %v to %v", c.fast, c.detector, took, c.least, c.most)
		}
	}
	if _, err := gossip.ProfileOf(true, "tarot"); err == nil {
		t.Error("an unknown detector is accepted")
	}
}

// TestMutualHeartbeats: members at rest that watch each other send heartbeats and nothing else for it. One that watches
// less often, or has a version without patience, gets its answers at once.
func TestMutualHeartbeats(t *testing.T) {
	net := newCluster(t, 1, 4, func(cfg *gossip.Config) { cfg.Watch = gossip.FastProfile() })
	startAll(net)
	agree(t, net, 10*time.Second)
	net.Run(10 * time.Second)
	clear(net.Sent)
	net.Run(10 * time.Second)
	if sent, want := net.Sent["gossip.Heartbeat"], 4*3*50; sent < want*9/10 || sent > want {
		t.Errorf("%d heartbeats, want %d", sent, want)
	}
	if net.Sent["gossip.HeartbeatReply"] > 0 {
		t.Errorf("%d answers are messages of their own", net.Sent["gossip.HeartbeatReply"])
	}
	if err := net.Agreed(); err != nil {
		t.Error(err)
	}
}

// TestDeafMember: a member that does not hear another one repeats its last answer. The other one soon suspects it.
func TestDeafMember(t *testing.T) {
	if why := deaf(t); why != "" {
		t.Error(why)
	}
}

func deaf(t *testing.T) string {
	for seed := range uint64(20) {
		net := newCluster(t, seed, 2, func(cfg *gossip.Config) { cfg.Watch, cfg.Downing = gossip.FastProfile(), nil })
		startAll(net)
		agree(t, net, 10*time.Second)
		net.Run(10 * time.Second)
		n1, n2 := net.Nodes[0], net.Nodes[1]
		net.Cut(n1.Addr, n2.Addr, true)
		if err := net.Agreed(); err != nil {
			t.Fatal(err)
		}
		net.Run(2 * time.Second)
		if m, _ := n1.M.View().Member(n2.ID); m.ReachableByMe {
			return fmt.Sprintf("seed %d: a member that hears nothing is trusted after 2s", seed)
		}
		net.Heal()
		net.Run(time.Second)
		if m, _ := n1.M.View().Member(n2.ID); !m.ReachableByMe {
			return fmt.Sprintf("seed %d: a member that hears again is not trusted after 1s", seed)
		}
	}
	return ""
}
