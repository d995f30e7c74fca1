package node

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// smallestHeap is what the runtime lets a heap grow to in any case, at 100 %; it
// grows with the percentage.
const smallestHeap = 4 << 20

// CollectFrom lets the heap grow to floor bytes before garbage is collected. A
// process with a few megabytes of live data and much traffic would otherwise
// collect dozens of times a second, and pay the fixed price of each. It is no
// ballast: what is not needed is not taken. With more live data than half the
// floor it collects as often as ever, and a memory limit goes first.
//
// Nothing is changed if floor is 0 or GOGC is set in the environment. The
// function that is returned undoes it.
func CollectFrom(floor Bytes) (undo func()) {
	if floor <= 0 || os.Getenv("GOGC") != "" {
		return func() {}
	}
	base := debug.SetGCPercent(100)
	c := &collector{floor: uint64(floor), base: base, percent: 100}
	c.adjust()
	c.afterNext()
	return c.undo
}

// collector sets the runtime's percentage anew after each collection.
type collector struct {
	floor uint64
	base  int // the percentage before

	mu      sync.Mutex
	percent int // as it was set last
	over    bool
}

// afterNext adjusts after the next collection, which finds the mark dead.
func (c *collector) afterNext() {
	mark := new([32]byte) // small ones share memory and may live on
	runtime.AddCleanup(mark, func(c *collector) {
		if c.adjust() {
			c.afterNext()
		}
	}, c)
}

func (c *collector) adjust() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	// Each change stops the world for a moment.
	if p := collectPercent(c.floor, live[0].Value.Uint64(), c.base); p < c.percent || p > c.percent+c.percent/8 {
		c.percent = p
		debug.SetGCPercent(p)
	}
	return true
}

func (c *collector) undo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	debug.SetGCPercent(c.base)
}

// collectPercent is by how much the heap may grow beyond what is live, so that
// it comes to floor, but not below base.
func collectPercent(floor, live uint64, base int) int {
	live = max(live, smallestHeap)
	least := int(floor * 100 / smallestHeap)
	grow := 0
	if floor > live {
		grow = int((floor - live) * 100 / live)
	}
	return max(base, min(least, grow))
}
