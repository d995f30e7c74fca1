package phi

import (
	"bytes"
	"math"
	"testing"
	"time"
)

// read derives a configuration and intervals between heartbeats from bytes.
func read(raw []byte) (Config, []time.Duration) {
	next := func() int64 {
		if len(raw) == 0 {
			return 0
		}
		b := raw[0]
		raw = raw[1:]
		return int64(b)
	}
	cfg := Config{
		Threshold:     0.5 + float64(next()),
		MaxSamples:    2 + int(next())%9,
		MinStdDev:     time.Duration(1+next()) * time.Millisecond,
		Pause:         time.Duration(next()*next()) * time.Millisecond,
		FirstInterval: time.Duration(1+next()) * 10 * time.Millisecond,
	}
	var gaps []time.Duration
	for len(raw) > 0 {
		g := next() - 2 // a few go back
		gaps = append(gaps, time.Duration(g*g*g)*100*time.Microsecond)
	}
	return cfg, gaps
}

// silences are times since the last heartbeat, in ascending order.
var silences = []time.Duration{
	-time.Second, 0, 1, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2 * time.Second, 5 * time.Second, 20 * time.Second, 5 * time.Minute, time.Hour, 1000 * time.Hour, math.MaxInt64 / 4,
}

// FuzzLaws: what holds for both detectors, whatever the configuration and the
// heartbeats.
func FuzzLaws(f *testing.F) {
	f.Add([]byte{8, 200, 100, 30, 100, 100, 46, 46, 47, 45, 100, 46, 46})  // regular, with an outage
	f.Add([]byte{12, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2})   // all at once
	f.Add([]byte{0, 7, 0, 255, 255, 255, 255, 0, 255, 0, 1, 1, 1, 255, 9}) // back and forth
	f.Add([]byte{255, 8, 255, 255, 255, 255, 255, 254, 253, 252, 251, 250, 249})
	f.Fuzz(func(t *testing.T, raw []byte) {
		cfg, gaps := read(raw)
		if err := cfg.Validate(); err != nil {
			t.Fatalf("%+v: %v", cfg, err)
		}
		checkLaws(t, New(cfg), gaps)
		checkLaws(t, NewDeadline(DeadlineConfig{Interval: cfg.FirstInterval, Pause: cfg.Pause}), gaps)
	})
}

func checkLaws(t *testing.T, d Detector, gaps []time.Duration) {
	now := at(0)
	if d.Monitoring() || !d.Available(now.Add(time.Hour)) || d.Phi(now) != 0 {
		t.Error("a detector without heartbeats judges its peer")
	}
	shifted := d.Clone()
	for _, gap := range append(gaps, time.Second) {
		now = now.Add(gap)
		before, state := d.Clone(), d.AppendState(nil, now)
		d.Heartbeat(now)
		shifted.Heartbeat(now.Add(time.Hour))
		if !bytes.Equal(before.AppendState(nil, now), state) {
			t.Fatal("a heartbeat changes a clone")
		}
		if len(d.history.ring) > d.cfg.MaxSamples {
			t.Fatalf("the history grew to %d", len(d.history.ring))
		}
	}
	if !d.Monitoring() || !bytes.Equal(d.AppendState(nil, now), shifted.AppendState(nil, now.Add(time.Hour))) {
		t.Error("the same heartbeats an hour later give another state")
	}
	checkGrowth(t, &d, now)
	checkSums(t, &d.history)
	// A pause of this process does not count as silence of the peer.
	late := d.Clone()
	late.Restart(now.Add(time.Hour))
	for _, s := range silences[:10] {
		if late.Phi(now.Add(time.Hour+s)) != d.Phi(now.Add(s)) {
			t.Errorf("after a restart phi after %v is %v, was %v", s, late.Phi(now.Add(time.Hour+s)), d.Phi(now.Add(s)))
		}
	}
}

// checkGrowth: while no heartbeat comes, phi never decreases, stays within its bounds, and
// makes the peer unavailable from the threshold on.
func checkGrowth(t *testing.T, d *Detector, last time.Time) {
	t.Helper()
	before := 0.0
	for _, s := range silences {
		phi := d.Phi(last.Add(s))
		if math.IsNaN(phi) || phi < before || phi > Max {
			t.Fatalf("phi after %v of silence is %v, was %v", s, phi, before)
		}
		if d.Available(last.Add(s)) != (phi < d.cfg.Threshold) {
			t.Errorf("after %v of silence phi is %v, available: %v", s, phi, d.Available(last.Add(s)))
		}
		before = phi
	}
	if before != Max {
		t.Errorf("after the longest silence phi is %v", before)
	}
	if d.deadline > 0 && (!d.Available(last.Add(d.deadline-1)) || d.Available(last.Add(d.deadline))) {
		t.Error("the deadline is not met to the nanosecond")
	}
	if d.deadline == 0 && d.Phi(last.Add(d.cfg.Pause)) > 2 {
		t.Errorf("phi after the acceptable pause is %v", d.Phi(last.Add(d.cfg.Pause)))
	}
}

// checkSums: the sums match the remembered intervals, however many there were.
func checkSums(t *testing.T, h *history) {
	t.Helper()
	var sum, sumSq int64
	for _, v := range h.ring {
		if v < 0 || v > maxInterval.Milliseconds() {
			t.Fatalf("an interval of %d ms is remembered", v)
		}
		sum, sumSq = sum+v, sumSq+v*v
	}
	if sum != h.sum || sumSq != h.sumSq {
		t.Errorf("sums are %d and %d, the history's are %d and %d", h.sum, h.sumSq, sum, sumSq)
	}
}

// TestLongestHistory: the sums of the longest possible intervals do not overflow.
func TestLongestHistory(t *testing.T) {
	var h history
	for range maxSamples {
		h.add(maxInterval.Milliseconds(), maxSamples)
	}
	if mean, variance := h.moments(); mean != float64(maxInterval.Milliseconds()) || variance != 0 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
}
