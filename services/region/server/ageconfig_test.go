package server

import (
	"strings"
	"testing"
	"time"
)

// TestAgesOfKeys: sends are not tried for longer than keys are remembered by the settings.
// The error names both.
func TestAgesOfKeys(t *testing.T) {
	for _, test := range []struct {
		sends, keys time.Duration
		refused     bool
	}{
		{23 * time.Hour, 24 * time.Hour, false}, {23 * time.Hour, 23 * time.Hour, true}, {47 * time.Hour, 48 * time.Hour, false},
		{time.Minute, time.Hour, false}, {31 * time.Minute, time.Hour, true},
	} {
		c := DefaultConfig()
		c.Core.Sends.MaxAge, c.Stored.DedupeAge = test.sends, test.keys
		text := ""
		if err := c.Validate(); err != nil {
			text = err.Error()
		}
		if named := strings.Contains(text, "region.sends.max_age is "+test.sends.String()) && strings.Contains(text, "region.dedupe_age is "+test.keys.String()); named != test.refused {
			t.Errorf("sends for %v, keys for %v: %q", test.sends, test.keys, text)
		}
	}
}
