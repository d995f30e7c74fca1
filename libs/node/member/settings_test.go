package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestSettingsReachTheCore: the membership of a service gets its settings. Package gossip tests each of [gossip.Tuning].
func TestSettingsReachTheCore(t *testing.T) {
	s := DefaultSettings()
	s.Zone, s.Downing.StableAfter = "eu-1", time.Minute
	s.Tuning = gossip.Tuning{
		Detector: "phi", Threshold: 9, Heartbeat: 300 * time.Millisecond, Pause: 2 * time.Second,
		MonitoredBy: 5, Interval: 600 * time.Millisecond, PreferUnseen: 0.5, PreferUnseenUpTo: 100,
	}
	o := Options{Settings: &s, Cluster: "prod", Role: "region", Version: "2"}
	c, err := o.core(sharding.NodeID{Addr: "a:1", UID: 1}, "region-1")
	if err != nil {
		t.Fatal(err)
	}
	tuned := fmt.Sprint(c.Watch.Phi.Threshold, c.Watch.Interval, c.Watch.Phi.Pause, c.MonitoredBy, c.GossipInterval, c.PreferUnseen, c.PreferUnseenUpTo)
	if want := "9 300ms 2s 5 600ms 0.5 100"; tuned != want {
		t.Errorf("the core has %s, want %s", tuned, want)
	}
	if c.Zone != "eu-1" || c.Name != "region-1" || c.Roles[0] != "region" || c.Version != "2" {
		t.Errorf("the core is %+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
