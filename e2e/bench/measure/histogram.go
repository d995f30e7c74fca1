package measure

import (
	"math/bits"
	"time"
)

const (
	// subBits is how finely a power of two is divided: into 32, so that a
	// latency is read to 3 %.
	subBits = 5
	buckets = 64 << subBits
)

// Histogram counts latencies in buckets that grow with them. The zero value is
// empty. It is not safe for concurrent use.
type Histogram struct {
	counts [buckets]uint32
	n      uint64
}

// Add counts one latency.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.n++
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
}

// N is how many latencies were counted.
func (h *Histogram) N() uint64 { return h.n }

// Quantile is the latency that the share q of all does not exceed; 0 if
// nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	left := uint64(q * float64(h.n))
	for i, c := range h.counts {
		if uint64(c) > left {
			return time.Duration(upper(i))
		}
		left -= uint64(c)
	}
	for i := buckets - 1; i >= 0; i-- {
		if h.counts[i] > 0 {
			return time.Duration(upper(i))
		}
	}
	return 0
}

func bucket(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// upper is the largest value of a bucket.
func upper(i int) uint64 {
	if i < 1<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return (uint64(i&(1<<subBits-1)|1<<subBits)+1)<<shift - 1
}
