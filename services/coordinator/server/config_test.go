package server

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/setting/settingtest"
	"github.com/roost-cluster/roost/libs/sharding"
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
		{21 * time.Second, time.Second, "lease.ttl is 21s"},
		{1000 * time.Hour, time.Second, "lease.ttl is 1000h"},
		{10 * time.Millisecond, time.Millisecond, "lease.ttl is 10ms"},
		{time.Second, 450 * time.Millisecond, "lease.renew is 450ms, must be shorter than lease.ttl (1s)"},
		{2 * time.Second, time.Second, "below half of lease.ttl"},
	} {
		c := DefaultConfig()
		c.Journal.URL, c.LeaseURL, c.Lease.TTL, c.Lease.RenewEvery = "memory:", "memory:x", test.ttl, test.renew
		err := c.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("ttl %s, renew %s: %v, want %q", test.ttl, test.renew, err, test.want)
		}
	}
}

// TestLeaseEnd: a standby holds watches only in the last quarter of a lease, when it should have been renewed.
func TestLeaseEnd(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		800 * time.Millisecond: 200 * time.Millisecond, 2 * time.Second: 500 * time.Millisecond, 20 * time.Second: 500 * time.Millisecond,
	} {
		c := DefaultConfig()
		c.Lease.TTL = ttl
		if got, err := c.core(); err != nil || got.LeaseEnd != want {
			t.Errorf("of a lease of %s: %s, %v, want %s", ttl, got.LeaseEnd, err, want)
		}
	}
}

// TestStrategy: the key chooses what the core asks, and a wrong one is refused by name.
func TestStrategy(t *testing.T) {
	c := DefaultConfig()
	c.Journal.URL, c.LeaseURL = "memory:", "memory:x"
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
	c.Types = map[string]string{"Cart": "least-shards absolute_limit=7", "Order": "max_simultaneous=5", "Log": "strategy=least-shards relative_limit=0.5", "Hot": "load tolerance=0.5 absolute_limit=9"}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	hot := allocation.DefaultConfig()
	hot.Strategy, hot.LoadTolerance, hot.AbsoluteLimit, hot.MaxSimultaneous = allocation.NameLoad, 0.5, 9, 5
	byLoad, err := allocation.New(hot)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.core()
	want := map[sharding.EntityType]allocation.Strategy{
		"Cart":  allocation.LeastShards{RelativeLimit: 0.25, AbsoluteLimit: 7},
		"Order": allocation.Threshold{Threshold: 1, MaxSimultaneous: 5},
		"Log":   allocation.LeastShards{RelativeLimit: 0.5, AbsoluteLimit: 256},
		"Hot":   byLoad,
	}
	if err != nil || !maps.Equal(got.Strategies, want) {
		t.Errorf("types have the strategies %+v, %v", got.Strategies, err)
	}
	for text, says := range map[string]string{
		"most-shards":               `allocation.types of Cart: bad allocation config: allocation.strategy is "most-shards"`,
		"least-shards limit=3":      "limit is unknown",
		"threshold threshold=few":   "not an integer",
		"threshold threshold=0":     "allocation.threshold is 0",
		"least-shards threshold":    "write it like key=value",
		"threshold thresold=1":      "did you mean threshold?",
		"threshold absolute_limit=": "not an integer",
		"load cooldown=1s":          "for all types",
		"load entity_weight=1":      "for all types",
		"load hysteresis=1":         "allocation.hysteresis is 1",
	} {
		c.Types = map[string]string{"Cart": text}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	if got, err := new(DefaultConfig()).core(); err != nil || got.Strategy != coordinator.DefaultConfig().Strategy {
		t.Errorf("by default the core asks %+v, %v", got.Strategy, err)
	}
}

// TestGatewayForgotten: a gateway is listed for two windows of the brake at least.
func TestGatewayForgotten(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{5 * time.Second: 30 * time.Second, 20 * time.Second: 40 * time.Second} {
		c := DefaultConfig()
		c.Core.BrakeWindow = window
		if core, err := c.core(); err != nil || core.GatewayForgotten != want {
			t.Errorf("with windows of %s, a gateway is forgotten after %s, want %s; %v", window, core.GatewayForgotten, want, err)
		}
	}
}

// TestSettings: a value outside of its range is refused, and the error names the key.
func TestSettings(t *testing.T) {
	settingtest.Run(t, func() settingtest.Config {
		c := DefaultConfig()
		c.Journal.URL, c.LeaseURL = "memory:", "memory:x"
		return &c
	})
}
