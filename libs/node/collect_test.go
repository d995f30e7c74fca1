package node

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestCollectPercent(t *testing.T) {
	for _, c := range []struct {
		minHeap, live uint64
		base, want    int
	}{
		{64 << 20, 0, 100, 1500},
		{64 << 20, 8 << 20, 100, 700},
		{64 << 20, 32 << 20, 100, 100},
		{64 << 20, 1 << 30, 100, 100},
		{1 << 20, 1 << 20, 100, 100},
		{64 << 20, 16 << 20, 400, 400},
	} {
		if got := collectPercent(c.minHeap, c.live, c.base); got != c.want {
			t.Errorf("minHeap %d, live %d, base %d: %d %%, want %d %%", c.minHeap, c.live, c.base, got, c.want)
		}
	}
}

// TestCollectFrom follows a heap that becomes large: the percentage rises while
// little is live, falls when much is, and is as before in the end.
func TestCollectFrom(t *testing.T) {
	t.Setenv("GOGC", "")
	before := percentNow()
	undo := CollectFrom(64 << 20)
	collectUntil(t, "little is live", func(p uint64) bool { return p > 200 })
	kept := make([]byte, 128<<20)
	collectUntil(t, "much is live", func(p uint64) bool { return p <= 100 })
	runtime.KeepAlive(kept)
	undo()
	if got := percentNow(); got != before {
		t.Errorf("%d %% after undo, want %d %%", got, before)
	}
}

// TestQuiet: a process that allocates nothing for a while collects as by default and gives its memory back;
// when it is busy again, it collects as before.
func TestQuiet(t *testing.T) {
	const minHeap, short = 64 << 20, 100 * time.Millisecond
	c := newCollector(minHeap, short)
	defer c.undo()
	collectUntil(t, "busy", func(p uint64) bool { busy(minHeap); return p > 200 })
	look := time.NewTicker(short / 10)
	defer look.Stop()
	for deadline := time.Now().Add(10 * time.Second); percentNow() > 100 || keptNow() > minHeap/4; <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("a quiet process collects at %d %% and keeps %d free bytes", percentNow(), keptNow())
		}
	}
	collectUntil(t, "busy again", func(p uint64) bool { busy(minHeap); return p > 200 })
}

// busy allocates n bytes.
func busy(n int) {
	for range n >> 20 {
		garbage = make([]byte, 1<<20)
	}
	garbage = nil
}

var garbage []byte

// keptNow returns how much memory the process has and does not use.
func keptNow() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func TestIsQuiet(t *testing.T) {
	for _, c := range []struct {
		allocated uint64
		in        time.Duration
		want      bool
	}{
		{0, time.Second, true},
		{2 << 20, time.Second, true},
		{3 << 20, time.Second, false},
		{64 << 20, 29 * time.Second, false},
		{64 << 20, 31 * time.Second, true},
	} {
		if got := isQuiet(c.allocated, c.in, 64<<20, 30*time.Second); got != c.want {
			t.Errorf("%d bytes in %v: %t, want %t", c.allocated, c.in, got, c.want)
		}
	}
}

func TestCollectFromLeavesGOGCAlone(t *testing.T) {
	t.Setenv("GOGC", "150")
	before := percentNow()
	defer CollectFrom(64 << 20)()
	if got := percentNow(); got != before {
		t.Errorf("%d %%, want %d %% as before", got, before)
	}
}

func percentNow() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func collectUntil(t *testing.T, when string, ok func(uint64) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(percentNow()); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d %% when %s", percentNow(), when)
		}
	}
}
