package entity

import (
	"testing"
	"time"
)

// TestDueBefore: a time is written as one, or as how long it is until then.
func TestDueBefore(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for text, want := range map[string]int64{"": 0, "1h": 4_600_000, "-10s": 990_000, "2026-07-01T12:00:00Z": 1_782_907_200_000} {
		if got, err := dueBefore(text, now); got != want || err != nil {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"tomorrow", "-1h", "1960-01-01T00:00:00Z"} {
		if got, err := dueBefore(text, now); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
