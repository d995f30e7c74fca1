package server

import (
	"strings"
	"testing"
	"time"
)

// TestAgesOfKeys: sends are not tried for longer than the configured time for which keys are
// remembered. The error names both.
func TestAgesOfKeys(t *testing.T) {
	for _, test := range []struct {
		sends, keys time.Duration
		refused     bool
	}{
		{23 * time.Hour, 24 * time.Hour, false}, {23 * time.Hour, 23 * time.Hour, true}, {47 * time.Hour, 48 * time.Hour, false},
		{time.Minute, time.Hour, false}, {31 * time.Minute, time.Hour, true},
	} {
		c := DefaultConfig()
		c.SendsMaxAge, c.DedupeAge = test.sends, test.keys
		text := ""
		if err := c.Validate(); err != nil {
			text = err.Error()
		}
		if named := strings.Contains(text, "region.sends_max_age is "+test.sends.String()) && strings.Contains(text, "region.dedupe_age is "+test.keys.String()); named != test.refused {
			t.Errorf("sends for %v, keys for %v: %q", test.sends, test.keys, text)
		}
	}
}

// TestDedupe: the settings of what the journal remembers of commands reach it, and a negative number of keys is refused.
func TestDedupe(t *testing.T) {
	c := DefaultConfig()
	c.DedupeAge, c.DedupeCount = 2*time.Hour, 7
	if j := c.journal(); j.DedupeAge != c.DedupeAge || j.DedupeCount != c.DedupeCount {
		t.Errorf("the journal is configured with %v, %d", j.DedupeAge, j.DedupeCount)
	}
	for count, refused := range map[int]bool{-1: true, 0: false, 100_000: false} { // order-free: errors
		c := DefaultConfig()
		c.DedupeCount = count
		text := ""
		if err := c.Validate(); err != nil {
			text = err.Error()
		}
		if named := strings.Contains(text, "region.dedupe_count is -1"); named != refused {
			t.Errorf("region.dedupe_count %d: %q", count, text)
		}
	}
}
