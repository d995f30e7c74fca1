package server

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestConfiguredStrategies: the configuration replaces the strategy of the code, and what
// cannot work is refused by name.
func TestConfiguredStrategies(t *testing.T) {
	types := []entity.Definition{counters()}
	cfg := DefaultConfig()
	cfg.Journal.URL, cfg.Seeds = "memory:", []string{"a:1"}
	all, err := cfg.strategies(types)
	if s := all["Counter"]; err != nil || s.String() != "idle=2m0s" {
		t.Errorf("by default %s, %v", s, err)
	}
	cfg.Passivation = map[string]string{"Counter": "lru limit=10 idle=1m"}
	all, err = cfg.strategies(types)
	if want := passivation.LRU(10).OrIdle(60e9).String(); err != nil || all["Counter"].String() != want || cfg.Validate() != nil {
		t.Errorf("%s, %v, %v; want %s", all["Counter"], err, cfg.Validate(), want)
	}
	cfg.Passivation = map[string]string{"Counter": "lru", "Other": "none"}
	_, err = cfg.strategies(types)
	for _, c := range []struct {
		err  error
		want string
	}{
		{err, "region.passivation names Other; this binary has [Counter]"},
		{cfg.Validate(), "region.passivation of Counter: "},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
	cfg.HeapShare = 1.5
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "region.heap_share is 1.5") {
		t.Errorf("%v", err)
	}
}
