package gossip_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// TestDetectors: whichever detector watches, a crashed member is suspected about
// when its profile says, and nobody else is.
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
