// Package latency counts latencies in a few bytes, so that a process can tell another one how
// they are distributed.
//
// A [Histogram] has eight buckets for each doubling, from 64 µs to 67 s. A percentile is the
// middle of its bucket, so it differs from the true one by at most a sixteenth. Shorter and
// longer latencies count in the first and the last bucket.
//
// # What this does not do
//
// It does not forget: for a certain period, begin a new Histogram. It is not a metric: see package
// histogram of libs/node.
package latency

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

const (
	perDoubling   = 8
	firstDoubling = 6 // 64 µs
	doublings     = 20
	buckets       = perDoubling * doublings
)

// MaxSketch is the largest length of a [Sketch], in bytes.
const MaxSketch = 2 + buckets*binary.MaxVarintLen32

// Histogram counts latencies. The zero value is ready. It is not safe for concurrent use.
type Histogram struct {
	counts [buckets]uint64
	all    uint64
}

// Sketch is a Histogram as sent: the index of the first bucket that is not empty, and the
// counts from there to the last one that is not, as unsigned varints. Empty: nothing is counted.
type Sketch string

// bucket returns the index of the bucket that counts a latency.
func bucket(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	doubling := bits.Len64(us) - 1
	if doubling < firstDoubling {
		return 0
	}
	part := us >> (doubling - 3) & (perDoubling - 1)
	return min((doubling-firstDoubling)*perDoubling+int(part), buckets-1)
}

// middle returns the middle of a bucket.
func middle(bucket int) time.Duration {
	doubling, part := firstDoubling+bucket/perDoubling, bucket%perDoubling
	width := time.Microsecond << (doubling - 3)
	return time.Duration(perDoubling+part)*width + width/2
}

// Add counts a latency.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(d)]++
	h.all++
}

// Count returns how many latencies are counted.
func (h *Histogram) Count() uint64 { return h.all }

// Percentile returns the latency that p percent of those counted do not exceed; 0 if none are.
func (h *Histogram) Percentile(p int) time.Duration {
	rank := max((h.all*uint64(p)+99)/100, 1)
	for i, n := range h.counts {
		if n >= rank {
			return middle(i)
		}
		rank -= n
	}
	return 0
}

// Merge adds what a sketch counts. Of a sketch that is cut off, or has more buckets, the rest
// is ignored.
func (h *Histogram) Merge(s Sketch) {
	b := []byte(s[:min(len(s), MaxSketch)])
	first, n := binary.Uvarint(b)
	if n <= 0 {
		return
	}
	for i := first; i < buckets; i++ {
		b = b[n:]
		var count uint64
		if count, n = binary.Uvarint(b); n <= 0 {
			return
		}
		count = min(count, math.MaxUint32)
		h.counts[i] += count
		h.all += count
	}
}

// Sketch returns what is counted, for [Histogram.Merge].
func (h *Histogram) Sketch() Sketch {
	if h.all == 0 {
		return ""
	}
	first, last := 0, buckets-1
	for h.counts[first] == 0 {
		first++
	}
	for h.counts[last] == 0 {
		last--
	}
	b := binary.AppendUvarint(nil, uint64(first))
	for _, n := range h.counts[first : last+1] {
		b = binary.AppendUvarint(b, min(n, math.MaxUint32))
	}
	return Sketch(b)
}
