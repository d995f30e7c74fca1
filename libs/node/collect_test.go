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
