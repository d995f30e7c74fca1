package sharding_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestWaitingCounts: ten waiting commands count as one processor, and at most as much as all other load.
func TestWaitingCounts(t *testing.T) {
	for waiting, want := range map[uint64]uint64{0: 0, 1000: 1000, 5000: 5000, 5001: 5000, 1 << 40: 5000} { // order-free
		l := sharding.Load{HandlerMicros: 300_000, MilliCommands: 10_000_000, MilliWaiting: waiting}
		counted := l
		counted.MilliWaiting = want
		if got := l.Counted(); got != counted {
			t.Errorf("%d: %+v, want %+v", waiting, got, counted)
		}
		if got := l.Weight(); got != 500_000+100*want {
			t.Errorf("%d: the weight is %d", waiting, got)
		}
	}
}
