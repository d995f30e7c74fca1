package backoff

import (
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	j, same := Jitter(7), Jitter(7)
	for failures, most := range []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		for range 100 {
			d := j.Pause(failures, time.Second, 5*time.Second)
			if d < most/2 || d > most {
				t.Fatalf("after %d failures: %v, want %v to %v", failures, d, most/2, most)
			}
			if again := same.Pause(failures, time.Second, 5*time.Second); again != d {
				t.Fatalf("the same seed draws %v and %v", d, again)
			}
		}
	}
	if first, second := j.Pause(9, time.Second, time.Hour), j.Pause(9, time.Second, time.Hour); first == second {
		t.Errorf("twice %v", first)
	}
}
