package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPercentile: percentiles of random latencies are within a sixteenth of the true ones.
func TestPercentile(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var h Histogram
		all := make([]time.Duration, 1+d.IntN(1000))
		for i := range all {
			all[i] = time.Duration(64e3 * math.Pow(2, d.Float64()*19))
			h.Add(all[i])
		}
		slices.Sort(all)
		for _, p := range []int{1, 50, 99, 100} {
			want := all[(len(all)*p+99)/100-1]
			if got := h.Percentile(p); math.Abs(float64(got-want)) > float64(want)/16+1e3 {
				t.Errorf("p%d of %d is %v, want %v", p, len(all), got, want)
			}
		}
	}
}

// TestBuckets: the middle of each bucket is counted in that bucket, and extremes have places.
func TestBuckets(t *testing.T) {
	for i := range buckets {
		if got := bucket(middle(i)); got != i {
			t.Errorf("the middle %v of bucket %d is counted in %d", middle(i), i, got)
		}
	}
	for d, want := range map[time.Duration]int{-time.Second: 0, 0: 0, time.Microsecond: 0, time.Hour: buckets - 1, math.MaxInt64: buckets - 1} {
		if got := bucket(d); got != want {
			t.Errorf("%v is counted in bucket %d, want %d", d, got, want)
		}
	}
}

// TestSketch: what two processes have counted is merged from their sketches.
func TestSketch(t *testing.T) {
	var a, b, all, merged Histogram
	for i := range 1000 {
		d := time.Duration(i) * 100 * time.Microsecond
		all.Add(d)
		if i%3 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	for _, h := range []*Histogram{&a, &b, {}} {
		s := h.Sketch()
		if len(s) > MaxSketch {
			t.Errorf("a sketch has %d bytes, at most %d are allowed", len(s), MaxSketch)
		}
		merged.Merge(s)
	}
	if merged != all {
		t.Errorf("merged is %v, want %v", merged, all)
	}
}

// TestMalformedSketch: made-up sketches do no harm.
func TestMalformedSketch(t *testing.T) {
	for _, s := range []Sketch{"", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", Sketch(strings.Repeat("\x01", 5000)), Sketch(strings.Repeat("\xff", 50)), "\x9f\x01\x05\x05"} {
		var h Histogram
		h.Merge(s)
		sum := uint64(0)
		for _, n := range h.counts {
			sum += n
		}
		if sum != h.Count() {
			t.Errorf("%q: %d are counted, and %d in the buckets", s, h.Count(), sum)
		}
	}
}
