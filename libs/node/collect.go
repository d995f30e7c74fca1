package node

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// smallestHeap is the heap size below which the runtime does not collect at 100 %; it is
// proportional to the percentage.
const smallestHeap = 4 << 20

// quietAfter is the time in which a quiet process does not allocate as much as it may before garbage
// is collected. A process that gets commands allocates that much in a few seconds.
const quietAfter = 30 * time.Second

// quietFrees is the number of times that a process gives memory back after it has become quiet,
// quietAfter each time: idle connections and entities end one after the other. Whatever is free later is
// found by the runtime, which collects every two minutes.
const quietFrees = 4

// CollectFrom lets the heap grow to minHeap bytes before garbage is collected. A process
// with a few megabytes of live data and much traffic would otherwise collect dozens of
// times a second, each time at a fixed cost. No memory is allocated in advance. With more
// live data than half of minHeap it has no effect, and a memory limit takes precedence.
//
// A process that has become quiet gives memory back to the system; it would otherwise keep what it
// needed under load. While it is quiet, garbage is collected as the runtime does by default, which is rarely.
//
// Nothing is changed if minHeap is 0 or GOGC is set in the environment. The returned
// function restores the previous setting.
func CollectFrom(minHeap setting.Bytes) (undo func()) {
	if minHeap <= 0 || os.Getenv("GOGC") != "" {
		return func() {}
	}
	return newCollector(uint64(minHeap), quietAfter).undo
}

// collector adjusts the runtime's percentage after each collection, and collects when there has been no
// collection for a while.
type collector struct {
	minHeap    uint64
	quietAfter time.Duration
	base       int         // the percentage before
	wait       *time.Timer // for a collection

	mu        sync.Mutex
	frees     int       // that are left before the process has given enough back
	percent   int       // last value that was set
	at        time.Time // of the last collection
	allocated uint64    // until then, since the start of the process
	over      bool      // undo was called
}

func newCollector(minHeap uint64, quietAfter time.Duration) *collector {
	base := debug.SetGCPercent(100)
	c := &collector{minHeap: minHeap, quietAfter: quietAfter, base: base, percent: 100}
	c.wait = time.AfterFunc(quietAfter, debug.FreeOSMemory) // it collects, so the percentage is adjusted
	c.collected()
	c.afterNext()
	return c
}

// afterNext adjusts the percentage after the next collection, which runs the cleanup of
// an unreachable object.
func (c *collector) afterNext() {
	mark := new([32]byte) // tiny objects share an allocation and could stay reachable
	runtime.AddCleanup(mark, func(c *collector) {
		if c.collected() {
			c.afterNext()
		}
	}, c)
}

// collected adjusts the percentage after a collection. It reports false if there is nothing to adjust
// any more.
func (c *collector) collected() bool {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	live, allocated, now := read[0].Value.Uint64(), read[1].Value.Uint64(), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	quiet := !c.at.IsZero() && isQuiet(allocated-c.allocated, now.Sub(c.at), c.minHeap, c.quietAfter)
	c.at, c.allocated = now, allocated
	p := c.base
	if !quiet {
		p, c.frees = collectPercent(c.minHeap, live, c.base), quietFrees
	}
	if c.frees > 0 {
		c.frees--
		c.wait.Reset(c.quietAfter)
	}
	// Each change briefly stops the world.
	if p < c.percent || p > c.percent+c.percent/8 {
		c.percent = p
		debug.SetGCPercent(p)
	}
	return true
}

func (c *collector) undo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.wait.Stop()
	debug.SetGCPercent(c.base)
}

// isQuiet reports whether a process that has allocated some bytes in a time allocates less than minHeap in
// quietAfter.
func isQuiet(allocated uint64, in time.Duration, minHeap uint64, quietAfter time.Duration) bool {
	return float64(allocated)*quietAfter.Seconds() < float64(minHeap)*in.Seconds()
}

// collectPercent returns the percentage that lets the heap grow to minHeap before the next
// collection, but not less than base.
func collectPercent(minHeap, live uint64, base int) int {
	live = max(live, smallestHeap)
	least := int(minHeap * 100 / smallestHeap)
	grow := 0
	if minHeap > live {
		grow = int((minHeap - live) * 100 / live)
	}
	return max(base, min(least, grow))
}
