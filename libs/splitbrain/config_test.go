package splitbrain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string // in the error; "": none
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Strategy = "keep-referee" }, `downing is "keep-referee": choose one of lease-majority, keep-majority`},
		{func(c *Config) { c.Strategy = "static-quorum" }, "quorum_size is 0"},
		{func(c *Config) { c.Strategy = "lease-majority" }, "LeaseRole is empty"},
		{func(c *Config) { *c = LeaseConfig("coordinator") }, ""},
		{func(c *Config) { c.StableAfter = -1 }, "stable_after"},
		{func(c *Config) { c.DownAllWhenUnstable = -2 }, "down_all_when_unstable"},
		{func(c *Config) { c.LeasePatience = 0 }, "lease_patience"},
		{func(c *Config) { c.Strategy, c.DownAfter = "auto-down", 0 }, "down_after"},
		{func(c *Config) { c.Strategy = "off" }, ""},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		_, err := cfg.Open()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	off := DefaultConfig()
	off.Strategy = "off"
	if d, err := off.Open(); d != nil || err != nil {
		t.Errorf("off is %v, %v", d, err)
	}
	if _, err := New(off); err == nil {
		t.Error("off makes a resolver")
	}
	off.Strategy = "auto-down"
	if d, _ := off.Open(); d != (gossip.AutoDown{After: 10 * time.Second}) {
		t.Errorf("auto-down is %+v", d)
	}
}

func TestUnstable(t *testing.T) {
	for _, text := range []string{"on", "off", "15s"} {
		var u Span
		if err := u.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
		}
		if back, _ := u.MarshalText(); string(back) != text {
			t.Errorf("%s comes back as %s", text, back)
		}
	}
	for _, text := range []string{"", "yes", "-1s", "0s"} {
		if err := new(Span).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A clone has the same memory, and one of its own from then on.
func TestClone(t *testing.T) {
	w := smallCluster(3, DefaultConfig(), true, -1)
	w.alive, w.o = 0b111, clean([]int{0, 0, 1})
	r, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	state := func(d gossip.Downing) []byte { return d.AppendState(nil, began) }
	empty := state(r)
	r.Decide(began, w.view(0))
	c := r.Clone()
	if !bytes.Equal(state(c), state(r)) || bytes.Equal(state(c), empty) {
		t.Error("a clone has another memory")
	}
	w.o = clean([]int{0, 1, 1})
	c.Decide(began.Add(time.Second), w.view(0))
	if bytes.Equal(state(c), state(r)) {
		t.Error("a clone shares the memory")
	}
	if d := r.Decide(began.Add(19*time.Second), w.view(1)); len(d.Down) > 0 {
		t.Errorf("downs %v before it is stable", d.Down)
	}
}
