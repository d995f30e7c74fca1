package main

import (
	"testing"
	"time"
)

func TestGapsBelongToTheFaultTheyOverlapMost(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	r := newRecorder(2, start)
	r.begin(0, at(0))
	r.begin(0, at(5))
	r.done(0, at(0), at(20)) // a gap of 20 before any fault
	r.done(0, at(5), at(30)) // of 10
	// No command waits for a long time: no gap.
	r.begin(0, at(990))
	r.fault("kill", at(1000))
	r.done(0, at(990), at(2000)) // 1010, 1000 of them after the kill
	r.begin(1, at(2000))
	r.begin(1, at(2500))
	r.fault("stop", at(3000))
	r.done(1, at(2000), at(3100)) // 1100, 1000 of them before the stop
	r.done(1, at(2500), at(3200)) // 100 after it
	r.begin(-1, at(3200))
	r.done(-1, at(3200), at(9200)) // routes are ignored

	want := []struct {
		what    string
		longest time.Duration
		airport int32
	}{{calm, 20, 0}, {"kill", 1100, 1}, {"stop", 100, 1}}
	for i, w := range want {
		got := r.windows[i]
		if got.what != w.what || got.longest != w.longest*time.Millisecond || got.airport != w.airport {
			t.Errorf("window %d is %s with %s at %d, want %s with %dms at %d", i, got.what, got.longest, got.airport, w.what, w.longest, w.airport)
		}
	}
	if n, longest := r.latency.TotalCount(), r.latency.Max(); n != 6 || longest < 5_990_000 || longest > 6_010_000 {
		t.Errorf("%d latencies, the longest %d µs; want 6, 6 s", n, longest)
	}
}

func TestRetriesAreCountedByCode(t *testing.T) {
	r := newRecorder(0, time.Unix(0, 0))
	r.retry("unavailable")
	r.retry("unavailable")
	r.retry("deadline_exceeded")
	if r.retries() != 3 || r.errors["unavailable"] != 2 {
		t.Errorf("%d, %v", r.retries(), r.errors)
	}
}
