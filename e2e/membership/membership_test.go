package membership

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestSize simulates the size that MEMBERSHIP_N names, or small ones.
func TestSize(t *testing.T) {
	sizes := []int{10, 40} // 100 and more take minutes where others work too
	if text := os.Getenv("MEMBERSHIP_N"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 4 {
			t.Fatalf("MEMBERSHIP_N is %q: choose a number from 4 on", text)
		}
		sizes = []int{n}
	}
	for _, n := range sizes {
		before := cpu(t)
		r, err := Run(n, seed(t), t.Logf)
		if err != nil {
			t.Fatalf("%d nodes: %v", n, err)
		}
		t.Logf("%d nodes: %v of CPU time", n, (cpu(t) - before).Round(100*time.Millisecond))
		if r.Rounds.Most > 15 && n <= 1000 {
			t.Errorf("%d nodes: up everywhere %v after the last was let in, and %v", n, r.Converged, r.Rounds)
		}
		if r.Calm.Bytes > 2<<10 || r.Changed.Bytes > 2<<10 {
			t.Errorf("%d nodes: more than 2 KiB/s for each: %v, %v after changes", n, r.Calm, r.Changed)
		}
	}
}

// TestStarvedNodesSuspectThemselves: 25 of 100 nodes stall for up to five seconds
// again and again. No node is removed, and hardly any healthy one is suspected.
func TestStarvedNodesSuspectThemselves(t *testing.T) {
	first := seed(t)
	for s := first; s < first+5; s++ {
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			if _, err := Starve(100, s, time.Minute, t.Logf); err != nil {
				t.Error(err)
			}
		})
	}
}

func seed(t *testing.T) uint64 {
	text := os.Getenv("MEMBERSHIP_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("MEMBERSHIP_SEED is %q: choose a number", text)
	}
	return n
}

func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
