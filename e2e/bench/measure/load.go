package measure

import (
	"sync"
	"time"
)

// Sample is the result of one run of a load.
type Sample struct {
	Ops     int64
	Elapsed time.Duration
	// Latency of single operations; nil if they were not timed.
	Latency *Histogram
}

// Rate returns operations per second.
func (s *Sample) Rate() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Ops) / s.Elapsed.Seconds()
}

// histograms is the number that the callers share. One has tens of kilobytes: one for each of
// thousands of callers would add to the processor time that is measured.
const histograms = 64

type lockedHistogram struct {
	mu sync.Mutex
	Histogram
}

// Add counts one latency.
func (h *lockedHistogram) Add(d time.Duration) {
	h.mu.Lock()
	h.Histogram.Add(d)
	h.mu.Unlock()
}

// Callers runs a closed loop: n callers; each begins the next operation when its last one
// has ended, until the time is over. The first error ends it.
func Callers(n int, length time.Duration, do func(caller int) error) (Sample, error) {
	return Loops(n, length, func(c int, loop func(func() error) error) error {
		return loop(func() error { return do(c) })
	})
}

// Loops is Callers for loops that run somewhere else than in goroutines of the load: start has
// loop called, which repeats an operation, and returns when that has returned.
func Loops(n int, length time.Duration, start func(caller int, loop func(do func() error) error) error) (Sample, error) {
	hs, errs := make([]lockedHistogram, min(n, histograms)), make([]error, n)
	began := time.Now()
	end := began.Add(length)
	var wg sync.WaitGroup
	for c := range n {
		wg.Go(func() {
			h := &hs[c%len(hs)]
			errs[c] = start(c, func(do func() error) error {
				for last := time.Now(); ; {
					if err := do(); err != nil {
						return err
					}
					now := time.Now()
					h.Add(now.Sub(last))
					if last = now; now.After(end) {
						return nil
					}
				}
			})
		})
	}
	wg.Wait()
	s := Sample{Elapsed: time.Since(began), Latency: &Histogram{}}
	for _, err := range errs {
		if err != nil {
			return s, err
		}
	}
	for i := range hs {
		s.Latency.Merge(&hs[i].Histogram)
	}
	s.Ops = s.Latency.N()
	return s, nil
}

// Open runs an open loop: operations begin at a steady rate whether or not those before
// have ended, and are timed from when they were due. start must not block; it calls done
// when the operation has ended. At most limit operations are in progress: the next one
// begins when another has ended, which its latency shows. The loop sleeps for at least
// minPause, and then begins all that are due, because waking for each operation may cost as
// much as what is measured. Open returns when all have begun; ended waits for the last one.
func Open(rate float64, limit int, minPause, length time.Duration, start func(n int, done func(error))) (ended func() (Sample, error)) {
	var mu sync.Mutex
	var first error
	h := &Histogram{}
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	began := time.Now()
	total := int(rate * length.Seconds())
	for n := range total {
		at := began.Add(time.Duration(float64(n) / rate * 1e9))
		if wait := time.Until(at); wait > 0 {
			time.Sleep(max(wait, minPause))
		}
		slots <- struct{}{}
		wg.Add(1)
		start(n, func(err error) {
			mu.Lock()
			h.Add(time.Since(at))
			if first == nil {
				first = err
			}
			mu.Unlock()
			<-slots
			wg.Done()
		})
	}
	return func() (Sample, error) {
		wg.Wait()
		return Sample{Ops: int64(total), Elapsed: time.Since(began), Latency: h}, first
	}
}
