package server

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/setting/settingtest"
	"github.com/roost-cluster/roost/services/region"
)

// good returns a valid configuration.
func good() *Config {
	c := DefaultConfig()
	c.Journal.URL = "memory:"
	return &c
}

// TestSettings: a value outside of its range is refused, and the error names the key.
func TestSettings(t *testing.T) {
	settingtest.Run(t, func() settingtest.Config { return good() })
}

// TestConditions: what does not fit together is refused, and the error names the key.
func TestConditions(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"journal.url is empty": func(c *Config) { c.Journal.URL = "" },
		"region.leave_timeout is 10s, must be above region.drain_timeout (10s)":      func(c *Config) { c.Core.LeaveTimeout = 10 * time.Second },
		"region.reply_bytes is 63MiB, must be at least twice region.link_reply_byte": func(c *Config) { c.Core.Replies.Total = 63 << 20 },
		"region.link_reply_bytes is 1MiB, must be at least":                          func(c *Config) { c.Core.Replies.Connection = 1 << 20 },
		"region.remember.strategy is \"some\", must be all or constant":              func(c *Config) { c.Core.Starts.Strategy = "some" },
		"region.remember.backoff_max is 1s, must be at least region.remember.backof": func(c *Config) { c.Core.Starts.BackOffMax = time.Second },
		"region.reminders.held is 1, must be at least":                               func(c *Config) { c.Core.Wakeups.Wakes = 1 },
		"region.reminders.retry_max is 1ms, must be at least region.reminders.retry": func(c *Config) { c.Core.Wakeups.RetryMax = time.Millisecond },
		"region.sends.retry_max is 1ms, must be at least region.sends.retry_min":     func(c *Config) { c.Core.Sends.RetryMax = time.Millisecond },
		"region.routed.link_idle is 1m0s, must be 0 or above":                        func(c *Config) { c.Routed.LinkIdle = time.Minute },
		"region.routed.link_idle is 0":                                               func(c *Config) { c.Routed.LinkIdle = 0 },
		"region.routed.commands is 1, must not be below region.routed.shard_command": func(c *Config) { c.Routed.MaxTotal = 1 },
		"region.routed.command_bytes is 1, must not be below region.routed.shard_by": func(c *Config) { c.Routed.MaxTotalBytes = 1 },
		"region.routed.shard_bytes is 1MiB, must be above 1MiB":                      func(c *Config) { c.Routed.MaxWaitingBytes = 1 << 20 },
		"region.routed.reply_bytes is 1MiB, must be at least 2MiB":                   func(c *Config) { c.Routed.MaxReplyBytes = 1 << 20 },
		"region.shard_cores is 65, must be 1 to 64":                                  func(c *Config) { c.Core.ShardCores = region.MaxShardCores + 1 },
		"region.last_exit ": func(c *Config) { c.LastExit = "no" },
		"region.labels has 65 labels": func(c *Config) {
			c.Labels = map[string]string{}
			for i := range 65 {
				c.Labels[strings.Repeat("a", i+1)] = "x"
			}
		},
	} {
		c := good()
		spoil(c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	small := good()
	small.Core.ShardCores, small.Core.Turn.TotalLoads = 16, 10
	if err := small.Validate(); err != nil || small.Core.ShardCores != 16 {
		t.Errorf("limits that are small for 16 shard cores: %v", err)
	}
}
