package node

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// smallestHeap is the heap size below which the runtime does not collect at 100 %; it is
// proportional to the percentage.
const smallestHeap = 4 << 20

// CollectFrom lets the heap grow to minHeap bytes before garbage is collected. A process
// with a few megabytes of live data and much traffic would otherwise collect dozens of
// times a second, each time at a fixed cost. No memory is allocated in advance. With more
// live data than half of minHeap it has no effect, and a memory limit takes precedence.
//
// Nothing is changed if minHeap is 0 or GOGC is set in the environment. The returned
// function restores the previous setting.
func CollectFrom(minHeap Bytes) (undo func()) {
	if minHeap <= 0 || os.Getenv("GOGC") != "" {
		return func() {}
	}
	base := debug.SetGCPercent(100)
	c := &collector{minHeap: uint64(minHeap), base: base, percent: 100}
	c.adjust()
	c.afterNext()
	return c.undo
}

// collector adjusts the runtime's percentage after each collection.
type collector struct {
	minHeap uint64
	base    int // the percentage before

	mu      sync.Mutex
	percent int  // last value that was set
	over    bool // undo was called
}

// afterNext adjusts the percentage after the next collection, which runs the cleanup of
// an unreachable object.
func (c *collector) afterNext() {
	mark := new([32]byte) // tiny objects share an allocation and could stay reachable
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
	// Each change briefly stops the world.
	if p := collectPercent(c.minHeap, live[0].Value.Uint64(), c.base); p < c.percent || p > c.percent+c.percent/8 {
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

// collectPercent returns the percentage with which the heap grows to minHeap before the
// next collection, but not less than base.
func collectPercent(minHeap, live uint64, base int) int {
	live = max(live, smallestHeap)
	least := int(minHeap * 100 / smallestHeap)
	grow := 0
	if minHeap > live {
		grow = int((minHeap - live) * 100 / live)
	}
	return max(base, min(least, grow))
}
