package journal

import (
	"testing"
	"time"
)

// TestAge: the age of an entity grows by the time between commits of one process, and never faster than time passes, even
// if commits take effect in another order than that in which they began.
func TestAge(t *testing.T) {
	var s Stamp
	for i, c := range []struct {
		writer  uint64
		elapsed time.Duration
		want    time.Duration
	}{
		{1, time.Second, 0}, // the first record
		{1, 3 * time.Second, 2 * time.Second},
		{1, 2 * time.Second, 2 * time.Second}, // began before the one above
		{1, 4 * time.Second, 3 * time.Second},
		{2, 9 * time.Second, 3 * time.Second}, // another process, which shares no clock
		{2, 10 * time.Second, 4 * time.Second},
		{1, 5 * time.Second, 4 * time.Second},
	} {
		if s = s.Next(Moment{Writer: c.writer, Elapsed: c.elapsed}); s.Age != Age(c.want.Milliseconds()) {
			t.Errorf("commit %d: the age is %d ms, want %v", i, s.Age, c.want)
		}
	}
}
