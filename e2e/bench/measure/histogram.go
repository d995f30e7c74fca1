package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// longest is the largest latency that is distinguished.
	longest = time.Hour
	// digits is the number of digits of a latency that are kept.
	digits = 2
)

// Histogram counts latencies, each to 1 %. The zero value is empty. It is not
// safe for concurrent use.
type Histogram struct{ hdr *hdrhistogram.Histogram }

// Add counts one latency.
func (h *Histogram) Add(d time.Duration) {
	if h.hdr == nil {
		h.hdr = hdrhistogram.New(1, int64(longest), digits)
	}
	_ = h.hdr.RecordValue(int64(min(max(d, 0), longest))) // always in its range
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(o *Histogram) {
	switch {
	case o.hdr == nil:
	case h.hdr == nil:
		h.hdr = o.hdr.Clone()
	default:
		h.hdr.Merge(o.hdr)
	}
}

// N returns how many latencies were counted.
func (h *Histogram) N() int64 {
	if h.hdr == nil {
		return 0
	}
	return h.hdr.TotalCount()
}

// Quantile returns the latency that the share q of all does not exceed, or 0 if nothing
// was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.hdr == nil {
		return 0
	}
	return time.Duration(h.hdr.ValueAtPercentile(100 * q))
}
