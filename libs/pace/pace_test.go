package pace

import (
	"testing"
	"time"
)

// TestRest: ticks come often until nothing has happened for a while, and then at the moments that all processes share.
func TestRest(t *testing.T) {
	const after = 200 * time.Millisecond
	start := time.Unix(1000, 0).Add(70 * time.Millisecond)
	r := Rest{Every: 200 * time.Millisecond, After: after}
	r.Stir(start)
	for _, c := range []struct {
		after, due time.Duration
	}{
		{0, 0},
		{after - time.Millisecond, after - time.Millisecond},
		{after, 330 * time.Millisecond},
		{310 * time.Millisecond, 530 * time.Millisecond}, // not so soon again
		{330 * time.Millisecond, 530 * time.Millisecond},
	} {
		r.Tick(start.Add(c.after))
		if got := r.Due().Sub(start); got != c.due {
			t.Errorf("a tick %v after the last news: the next one is due after %v, want %v", c.after, got, c.due)
		}
	}
}
