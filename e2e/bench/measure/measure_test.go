package measure

import (
	"errors"
	"testing"
	"time"
)

func TestHistogramReadsWhatWasAdded(t *testing.T) {
	var h, other Histogram
	for i := range 1000 {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	other.Add(time.Hour)
	h.Merge(&other)
	for q, want := range map[float64]time.Duration{0: 0, 0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Hour} {
		if got := h.Quantile(q); got < want || got > want+want/50 {
			t.Errorf("quantile %v is %v, want %v or 2 %% more", q, got, want)
		}
	}
	for v := range time.Duration(1 << 16) {
		var one Histogram
		one.Add(v)
		if read := one.Quantile(0.5); read < v || read > v+v/100 {
			t.Fatalf("%d is read as %d", v, read)
		}
	}
	var empty, zero Histogram
	zero.Merge(&empty)
	if zero.N() != 0 || zero.Quantile(0.5) != 0 || h.N() != 1001 {
		t.Errorf("%d and %d counted", zero.N(), h.N())
	}
}

func TestCompareTakesTurns(t *testing.T) {
	var order string
	subject := func(name string, ops int64) Subject {
		return Subject{Name: name, Run: func(time.Duration) (Sample, error) {
			order += name
			return Sample{Ops: ops, Elapsed: time.Second}, nil
		}}
	}
	figures, err := Plan{Rounds: 3, Length: time.Second}.Compare(subject("a", 100), subject("b", 50))
	if err != nil || order != "abababab" {
		t.Fatalf("order %s, %v", order, err)
	}
	if f := figures[1]; f.Rate != 50 || f.Ratio != 0.5 {
		t.Errorf("%+v", f)
	}
	broken := Subject{Name: "c", Run: func(time.Duration) (Sample, error) { return Sample{}, errors.New("no") }}
	if _, err := (Plan{Rounds: 1}).Compare(broken); err == nil || err.Error() != "c: no" {
		t.Errorf("error %v", err)
	}
}

func TestLoadsCountEveryOperation(t *testing.T) {
	counts := make([]int64, 4)
	s, err := Callers(4, time.Millisecond, func(c int) error { counts[c]++; return nil })
	if err != nil || s.Ops != counts[0]+counts[1]+counts[2]+counts[3] || s.Ops == 0 {
		t.Errorf("%d operations of %v, %v", s.Ops, counts, err)
	}
	if _, err = Callers(2, time.Hour, func(int) error { return errors.New("no") }); err == nil {
		t.Error("an error is lost")
	}
	begun := 0
	s, err = Open(10_000, 8, 0, 10*time.Millisecond, func(_ int, done func(error)) { begun++; go done(nil) })()
	if err != nil || s.Ops != 100 || begun != 100 || s.Latency.N() != 100 {
		t.Errorf("%d of %d operations, %v", s.Ops, begun, err)
	}
	// Operations may end in any order, after Open has returned.
	ends := make(chan func(error), 10)
	ended := Open(1000, 10, time.Millisecond, 10*time.Millisecond, func(_ int, done func(error)) { ends <- done })
	for range 10 {
		go (<-ends)(errors.New("no"))
	}
	if s, err = ended(); err == nil || s.Latency.N() != 10 {
		t.Errorf("%d operations, %v", s.Latency.N(), err)
	}
}
