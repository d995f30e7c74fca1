package server

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
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

// TestLeaseEnd: a standby holds watches only in the last quarter of a lease, when it should have been renewed.
func TestLeaseEnd(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		800 * time.Millisecond: 200 * time.Millisecond, 2 * time.Second: 500 * time.Millisecond, 20 * time.Second: 500 * time.Millisecond,
	} {
		c := DefaultConfig()
		c.LeaseTTL = ttl
		if got, err := c.core(); err != nil || got.LeaseEnd != want {
			t.Errorf("of a lease of %s: %s, %v, want %s", ttl, got.LeaseEnd, err, want)
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
		"threshold threshold=few":   "not a whole number",
		"threshold threshold=0":     "allocation.threshold is 0",
		"least-shards threshold":    "write it like key=value",
		"threshold thresold=1":      "did you mean threshold?",
		"threshold absolute_limit=": "not a whole number",
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

// TestBudget: the keys reach the core, and wrong ones are refused by name.
func TestBudget(t *testing.T) {
	c := DefaultConfig()
	c.Journal, c.Lease = "memory:", "memory:x"
	c.Budget = Budget{
		MaxHandoffs: 1, MaxHandoffsPerRegion: 2, MaxMovesPerMinute: 3, BrakeWindow: 20 * time.Second, BrakeWindows: 5, BrakeSamples: 6,
		BrakeFactor: 7, BrakeExcess: 8, BrakePause: 9, BrakeRise: 10, BrakeFall: 11,
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := coordinator.DefaultConfig()
	want.MaxHandoffs, want.MaxHandoffsPerRegion, want.MaxMovesPerMinute, want.Brake, want.BrakeWindow, want.BrakeWindows = 1, 2, 3, false, 20*time.Second, 5
	want.BrakeSamples, want.BrakeFactor, want.BrakeExcess, want.BrakePause, want.BrakeRise, want.BrakeFall = 6, 7, 8, 9, 10, 11
	want.GatewayForgotten = 40 * time.Second
	got, err := c.core()
	if want.Strategy, want.Strategies = got.Strategy, got.Strategies; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the core has %+v, %v\nwant %+v", got, err, want)
	}
	c.Budget = Budget{MaxHandoffsPerRegion: -1, MaxMovesPerMinute: maxMovesPerMinute + 1, BrakeFactor: 1}
	err = c.Validate()
	for _, key := range []string{"max_handoffs is 0", "max_handoffs_per_region is -1", "max_moves_per_minute", "brake_window,", "brake_windows is 0", "brake_samples", "brake_factor is 1", "brake_rise", "brake_fall"} {
		if err == nil || !strings.Contains(err.Error(), "allocation."+key) {
			t.Errorf("no error names %s: %v", key, err)
		}
	}
}
