package gossip_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/setting"
)

// tuned has, for each setting of [gossip.Tuning], another value than the default, and a text about the fields of the core
// that it changes. refused is the difference that a joining node with that value is refused for.
var tuned = map[string]struct {
	change  func(*gossip.Tuning)
	core    func(*gossip.Config) string
	want    string
	refused string
}{
	"fast": {
		func(x *gossip.Tuning) { x.Fast = false },
		func(c *gossip.Config) string { return fmt.Sprint(c.Watch.Interval, c.Watch.Phi.Pause) },
		"1s 3s", `gossip.acceptable_pause is "3s" at the joining node and "800ms" in the cluster; gossip.heartbeat_interval is "1s" at the joining node and "200ms" in the cluster`,
	},
	"detector": {
		func(x *gossip.Tuning) { x.Detector = "deadline" },
		func(c *gossip.Config) string { return fmt.Sprint(c.Watch.Deadline.Interval, c.Watch.Deadline.Pause) },
		"200ms 800ms", `gossip.detector is "deadline" at the joining node and "phi" in the cluster`,
	},
	"threshold": {
		func(x *gossip.Tuning) { x.Threshold = 9.5 },
		func(c *gossip.Config) string { return fmt.Sprint(c.Watch.Phi.Threshold) },
		"9.5", `gossip.threshold is "9.5" at the joining node and "8" in the cluster`,
	},
	"heartbeat_interval": {
		func(x *gossip.Tuning) { x.Heartbeat = 300 * time.Millisecond },
		func(c *gossip.Config) string { return fmt.Sprint(c.Watch.Interval, c.Watch.Phi.FirstInterval) },
		"300ms 300ms", `gossip.heartbeat_interval is "300ms" at the joining node and "200ms" in the cluster`,
	},
	"acceptable_pause": {
		func(x *gossip.Tuning) { x.Pause = 2 * time.Second },
		func(c *gossip.Config) string { return fmt.Sprint(c.Watch.Phi.Pause) },
		"2s", `gossip.acceptable_pause is "2s" at the joining node and "800ms" in the cluster`,
	},
	"monitored_by": {
		func(x *gossip.Tuning) { x.MonitoredBy = 5 },
		func(c *gossip.Config) string { return fmt.Sprint(c.MonitoredBy) },
		"5", `gossip.monitored_by is "5" at the joining node and "9" in the cluster`,
	},
	"interval": {
		func(x *gossip.Tuning) { x.Interval = 600 * time.Millisecond },
		func(c *gossip.Config) string { return fmt.Sprint(c.GossipInterval, c.BusyInterval) },
		"600ms 200ms", `gossip.interval is "600ms" at the joining node and "1s" in the cluster`,
	},
	"prefer_unseen": {
		func(x *gossip.Tuning) { x.PreferUnseen = 0.5 },
		func(c *gossip.Config) string { return fmt.Sprint(c.PreferUnseen) },
		"0.5", `gossip.prefer_unseen is "0.5" at the joining node and "0.8" in the cluster`,
	},
	"prefer_unseen_up_to": {
		func(x *gossip.Tuning) { x.PreferUnseenUpTo = 100 },
		func(c *gossip.Config) string { return fmt.Sprint(c.PreferUnseenUpTo) },
		"100", `gossip.prefer_unseen_up_to is "100" at the joining node and "400" in the cluster`,
	},
}

// TestTuningReachesTheCore: each setting changes the core, and a node with another value is not admitted.
func TestTuningReachesTheCore(t *testing.T) {
	fields, err := setting.Fields(new(gossip.DefaultTuning()))
	if err != nil || len(fields) != len(tuned) {
		t.Fatalf("%d settings, and %d in this test; %v", len(fields), len(tuned), err)
	}
	for _, f := range fields {
		t.Run(f.Key, func(t *testing.T) {
			c, tuning := tuned[f.Key], gossip.DefaultTuning()
			if !f.Expert {
				t.Error("it is shown to all")
			}
			c.change(&tuning)
			if err := tuning.Validate(); err != nil {
				t.Fatal(err)
			}
			core := gossip.DefaultConfig()
			tuning.Apply(&core)
			if got := c.core(&core); got != c.want {
				t.Errorf("the core has %s, want %s", got, c.want)
			}
			usual := gossip.DefaultTuning()
			net, n3 := pair(t, func(cfg *gossip.Config) { tuning.Apply(cfg) }, usual.Apply)
			net.Start(n3)
			net.Run(5 * time.Second)
			failed, ok := event[gossip.JoinFailed](n3)
			if !ok || !strings.Contains(failed.Reason, c.refused) || n3.M != nil {
				t.Errorf("refused with %q, want %q", failed.Reason, c.refused)
			}
		})
	}
}

// TestTuningWinsOverPresets: what is set apart from the presets wins, whichever presets are chosen; two ways to the same
// values are not a difference.
func TestTuningWinsOverPresets(t *testing.T) {
	for _, fast := range []bool{true, false} {
		for _, detector := range []string{"phi", "cloud"} {
			p, err := (&gossip.Tuning{Fast: fast, Detector: detector, Threshold: 10, Heartbeat: 500 * time.Millisecond, Pause: 2 * time.Second}).Profile()
			if err != nil || p.Phi.Threshold != 10 || p.Interval != 500*time.Millisecond || p.Phi.Pause != 2*time.Second {
				t.Errorf("fast %v, %s: %+v, %v", fast, detector, p, err)
			}
		}
		p, err := (&gossip.Tuning{Fast: fast, Detector: "deadline", Heartbeat: 500 * time.Millisecond, Pause: 2 * time.Second}).Profile()
		if err != nil || p.Deadline.Interval != 500*time.Millisecond || p.Deadline.Pause != 2*time.Second {
			t.Errorf("fast %v, deadline: %+v, %v", fast, p, err)
		}
	}
	same := gossip.DefaultTuning()
	same.Fast, same.Detector, same.Heartbeat, same.Pause, same.Threshold = false, "cloud", 200*time.Millisecond, 800*time.Millisecond, 8
	usual := gossip.DefaultTuning()
	net, n3 := pair(t, same.Apply, usual.Apply)
	net.Start(n3)
	agree(t, net, 5*time.Second)
}

// TestTuningRanges: unusable values are refused by key.
func TestTuningRanges(t *testing.T) {
	for key, changes := range map[string][]func(*gossip.Tuning){
		"detector":            {func(x *gossip.Tuning) { x.Detector = "tarot" }},
		"threshold":           {func(x *gossip.Tuning) { x.Threshold = -1 }, func(x *gossip.Tuning) { x.Threshold = 300 }, func(x *gossip.Tuning) { x.Detector, x.Threshold = "deadline", 8 }},
		"heartbeat_interval":  {func(x *gossip.Tuning) { x.Heartbeat = 99 * time.Millisecond }, func(x *gossip.Tuning) { x.Heartbeat = time.Hour }},
		"acceptable_pause":    {func(x *gossip.Tuning) { x.Pause = -1 }, func(x *gossip.Tuning) { x.Pause = 2 * time.Hour }},
		"monitored_by":        {func(x *gossip.Tuning) { x.MonitoredBy = 0 }},
		"interval":            {func(x *gossip.Tuning) { x.Interval = 99 * time.Millisecond }, func(x *gossip.Tuning) { x.Interval = 11 * time.Second }},
		"prefer_unseen":       {func(x *gossip.Tuning) { x.PreferUnseen = -0.1 }, func(x *gossip.Tuning) { x.PreferUnseen = 1.1 }},
		"prefer_unseen_up_to": {func(x *gossip.Tuning) { x.PreferUnseenUpTo = 0 }},
	} {
		for i, change := range changes {
			tuning := gossip.DefaultTuning()
			change(&tuning)
			if err := tuning.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+" ") {
				t.Errorf("%s, value %d: %v", key, i, err)
			}
		}
	}
}
