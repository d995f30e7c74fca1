package archtest

import (
	"runtime"
	"testing"
)

// A decoder may allocate MemoryFactor times the length of its input and MemoryBase
// bytes.
const (
	MemoryFactor = 8
	MemoryBase   = 64 << 10
)

// Memory runs decode, which reads an input of n bytes, and fails the test if
// it allocates more than factor times n plus [MemoryBase] bytes in all, garbage
// included. A factor other than [MemoryFactor] needs a reason, next to the call.
//
// Other goroutines allocate too, so decode is run up to three times before the test
// fails: it must not depend on how often it runs.
func Memory(t testing.TB, factor, n int, decode func()) {
	t.Helper()
	limit := uint64(factor*n + MemoryBase)
	var least uint64
	for try := range 3 {
		got := allocated(decode)
		if got <= limit {
			return
		}
		if try == 0 || got < least {
			least = got
		}
	}
	t.Errorf("an input of %d bytes allocates %d bytes, at most %d are allowed", n, least, limit)
}

// allocated returns how many bytes the process allocates while f runs. The counter
// never falls, so a garbage collection in between does not matter.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
