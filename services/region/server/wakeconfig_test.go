package server

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/services/region"
)

// TestWakeupKeys: the defaults are those of the cores, and mistakes name the keys.
func TestWakeupKeys(t *testing.T) {
	c := DefaultConfig()
	core := region.DefaultConfig(region.Config{}.Self, "r")
	want := core
	if c.setWakeups(&core); core.Starts != want.Starts || core.Turn.RemindersPerEntity != want.Turn.RemindersPerEntity || core.Wakeups != want.Wakeups {
		t.Errorf("%+v, %+v", core.Starts, core.Wakeups)
	}
	c.Remember = RememberConfig{Strategy: "some"}
	c.Reminders = ReminderConfig{}
	err := c.validateWakeups()
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{"remember_strategy is \"some\"", "frequency", "number", "limit", "failing", "backoff is", "held", "firings", "page is", "refresh is", "retry_min is"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%q is not in: %v", key, err)
		}
	}
	for _, field := range []string{"wakeup:", "Wakes", "BackOff", "RetryM", "Refresh"} {
		if strings.Contains(err.Error(), field) {
			t.Errorf("%s is in: %v", field, err)
		}
	}
}
