package coordinator

import (
	"strings"
	"testing"
)

func TestConfigNamesTheField(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	for field, spoil := range map[string]func(*Config){
		"Strategy":                       func(c *Config) { c.Strategy = nil },
		"coordinator.min_regions":        func(c *Config) { c.MinRegions = 0 },
		"RecoveryWait":                   func(c *Config) { c.RecoveryWait = 0 },
		"Resend":                         func(c *Config) { c.Resend = c.HostTimeout },
		"HostTimeout":                    func(c *Config) { c.HostTimeout = -1 },
		"coordinator.handoff_timeout":    func(c *Config) { c.HandoffTimeout = 0 },
		"HandoffSlack":                   func(c *Config) { c.HandoffSlack = 0 },
		"coordinator.rebalance_interval": func(c *Config) { c.RebalanceInterval = 0 },
		"allocation.max_handoffs":        func(c *Config) { c.MaxHandoffs = 0 },
		"WatchHold":                      func(c *Config) { c.WatchHold = 0 },
		"LeaseEnd":                       func(c *Config) { c.LeaseEnd = 0 },
		"MaxWatches":                     func(c *Config) { c.MaxWatches = 0 },
		"ChangeLog":                      func(c *Config) { c.ChangeLog = 0 },
		"MaxTypes":                       func(c *Config) { c.MaxTypes = 0 },
		"MaxShards":                      func(c *Config) { c.MaxShards = 1 },
		"MaxCommands":                    func(c *Config) { c.MaxCommands = 0 },
	} {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("a bad %s gives %v", field, err)
		}
	}
}
