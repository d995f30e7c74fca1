package server

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/services/coordinator"
)

// What the lease would refuse is said in the configuration's own keys.
func TestCheckLease(t *testing.T) {
	for _, test := range []struct {
		ttl, renew time.Duration
		want       string // empty: accepted
	}{
		{2 * time.Second, 500 * time.Millisecond, ""},
		{20 * time.Second, time.Second, ""},
		{21 * time.Second, time.Second, "lease.ttl"},
		{1000 * time.Hour, time.Second, "lease.ttl"},
		{10 * time.Millisecond, time.Millisecond, "lease.ttl"},
		{time.Second, 450 * time.Millisecond, "lease.renew 450ms must be shorter than lease.ttl 1s"},
		{2 * time.Second, time.Second, "below half of lease.ttl"},
		{2 * time.Second, 0, "lease.renew"},
		{2 * time.Second, -time.Second, "lease.renew"},
	} {
		c := Config{LeaseTTL: test.ttl, LeaseRenew: test.renew}
		err := c.checkLease()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("ttl %s, renew %s: %v, want %q", test.ttl, test.renew, err, test.want)
		}
	}
}

// TestStrategy: the key chooses what the core asks, and a wrong one is refused by name.
func TestStrategy(t *testing.T) {
	c := DefaultConfig()
	c.Journal, c.Lease = "memory:", "memory:x"
	c.Allocation.Strategy = "most-shards"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `allocation.strategy is "most-shards"`) {
		t.Errorf("an unknown strategy: %v", err)
	}
	c.Allocation.Strategy = allocation.NameThreshold
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.core(); err != nil || got.Strategy != (allocation.Threshold{Threshold: 1, MaxSimultaneous: 3}) {
		t.Errorf("the core asks %+v, %v", got.Strategy, err)
	}
	if got, err := new(DefaultConfig()).core(); err != nil || got.Strategy != coordinator.DefaultConfig().Strategy {
		t.Errorf("by default the core asks %+v, %v", got.Strategy, err)
	}
}
