package executor

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bench is a pool whose jobs are functions, which return what came of them.
type bench struct {
	*Pool[func() int, int, struct{}]
	mu    sync.Mutex
	got   []int // results, as they were handed in
	woken int   // calls without a job
	ended chan struct{}
}

type worker = Worker[func() int, int, struct{}]

func newBench(t *testing.T) *bench {
	b := &bench{ended: make(chan struct{})}
	b.Pool = New(b.work, b.handIn, func(yield func()) {
		if yield != nil {
			yield()
		}
	}, b.ended)
	t.Cleanup(func() {
		b.End()
		close(b.ended)
		synctest.Wait()
	})
	return b
}

func (b *bench) handIn(results []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, results...)
}

// work does the jobs of a worker.
func (b *bench) work(w *worker) {
	b.do(w)
}

func (b *bench) do(w *worker) (preempted bool) {
	if !w.Loaded() {
		b.mu.Lock()
		b.woken++
		b.mu.Unlock()
	}
	j := w.Next(nil)
	b.Watch()
	for j != nil {
		began := time.Now()
		r := j.Work()
		if j.Pace != nil {
			j.Pace.Observe(time.Since(began))
		}
		j = w.Next(&r)
	}
	results, preempted := w.Finish()
	b.handIn(results)
	w.Reuse(results)
	return preempted
}

// inline takes jobs on and does them.
func (b *bench) inline(yield func(), jobs ...Job[func() int]) (taken int, preempted bool) {
	w := b.Acquire(yield)
	defer b.Release(w)
	for i := range jobs {
		if !w.Take(&jobs[i]) {
			b.Add(jobs[i:])
			break
		}
		taken++
	}
	return taken, b.do(w)
}

func (b *bench) results() []int {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	got := slices.Sorted(slices.Values(b.got))
	b.got = nil
	return got
}

func gives(n int) func() int { return func() int { return n } }

func TestInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		quick := &Pace{}
		taken, preempted := b.inline(nil, Job[func() int]{gives(1), quick}, Job[func() int]{gives(2), quick})
		if got := b.results(); taken != 2 || preempted || !slices.Equal(got, []int{1, 2}) {
			t.Errorf("taken %d, preempted %t, results %v", taken, preempted, got)
		}
	})
}

// A worker takes on as much as is quick; the pool does the rest.
func TestTakesWhatIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		half := &Pace{}
		for range 100 {
			half.Observe(Quick / 2)
		}
		var jobs []Job[func() int]
		for i := range 5 {
			jobs = append(jobs, Job[func() int]{gives(i), half})
		}
		taken, _ := b.inline(nil, jobs...)
		if got := b.results(); taken != 2 || !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
			t.Errorf("taken %d, results %v", taken, got)
		}
		// One that may take as long as a disk is taken on if there is nothing else.
		taken, _ = b.inline(nil, Job[func() int]{Work: gives(1)}, Job[func() int]{Work: gives(2)})
		if got := b.results(); taken != 1 || !slices.Equal(got, []int{1, 2}) {
			t.Errorf("of jobs without a pace taken %d, results %v", taken, got)
		}
	})
}

// An inline runner that is held up yields: what came before is handed in, what is
// behind goes to the pool, and jobs of that pace are not done inline any more.
func TestPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		quick, slow, gate, yielded := &Pace{}, &Pace{}, make(chan struct{}), make(chan struct{})
		over := make(chan bool)
		go func() {
			_, preempted := b.inline(func() { close(yielded) },
				Job[func() int]{gives(1), quick},
				Job[func() int]{func() int { <-gate; return 2 }, slow},
				Job[func() int]{gives(3), quick})
			over <- preempted
		}()
		<-yielded
		if got := b.results(); !slices.Equal(got, []int{1, 3}) {
			t.Errorf("while it is held up: %v", got)
		}
		if (&Job[func() int]{Pace: slow}).Expected() < Quick {
			t.Error("what is held up counts as quick")
		}
		close(gate)
		if preempted := <-over; !preempted {
			t.Error("it was not told that it was preempted")
		}
		if got := b.results(); !slices.Equal(got, []int{2}) {
			t.Errorf("afterwards: %v", got)
		}
		// The worker is as new.
		if taken, preempted := b.inline(nil, Job[func() int]{gives(4), quick}); taken != 1 || preempted {
			t.Errorf("afterwards taken %d, preempted %t", taken, preempted)
		}
		b.results()
	})
}

// A job that is about to wait is preempted at once: it may wait for a later job.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		began, quick, gate := time.Now(), &Pace{}, make(chan struct{})
		yielded := 0
		w := b.Acquire(func() { yielded++ })
		for _, work := range []func() int{
			gives(1),
			func() int { b.Block(w); b.Block(w); <-gate; return 2 },
			func() int { close(gate); return 3 },
		} {
			if !w.Take(&Job[func() int]{work, quick}) {
				t.Fatal("not taken")
			}
		}
		preempted := b.do(w)
		b.Release(w)
		if got := b.results(); !preempted || yielded != 1 || !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("preempted %t, yielded %d times, results %v", preempted, yielded, got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it has waited %v for the watchdog", took)
		}
		b.Block(w) // of no job
	})
}

// Jobs that block are all in progress at a time, however many.
func TestBlockingJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const n = 3 * MaxIdle
		gate := make(chan struct{})
		var jobs []Job[func() int]
		var under sync.WaitGroup
		under.Add(n)
		for i := range n {
			jobs = append(jobs, Job[func() int]{Work: func() int { under.Done(); <-gate; return i }})
		}
		b.Add(jobs)
		under.Wait()
		close(gate)
		if got := b.results(); len(got) != n {
			t.Errorf("%d results", len(got))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.Pool.mu.Lock()
		defer b.Pool.mu.Unlock()
		if len(b.idle) != MaxIdle || len(b.all) > len(b.idle)+len(b.spare) {
			t.Errorf("%d goroutines wait, %d workers including %d spare ones", len(b.idle), len(b.all), len(b.spare))
		}
	})
}

// A woken worker looks, also without a job, and none does after the end.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.Wake()
		b.results()
		b.Wake()
		b.results()
		if b.woken != 2 {
			t.Errorf("woken %d times", b.woken)
		}
		b.End() // which wakes those that wait, to end
		b.results()
		woken := b.woken
		b.Wake()
		if b.results(); b.woken != woken {
			t.Error("woken after the end")
		}
	})
}

// The watchdog ends when no worker works, and starts again with the next one.
func TestWatchdogLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 3 {
			b.inline(nil, Job[func() int]{gives(1), &Pace{}})
			if !b.watched.Load() {
				t.Error("no watchdog runs")
			}
			time.Sleep(2 * watchdogLinger * WatchdogInterval)
			if b.watched.Load() {
				t.Error("the watchdog does not end")
			}
		}
	})
}

// A job that ends its goroutine has its result handed in by Exit. Other workers do the jobs after it, an inline
// runner yields, and the worker is as new.
func TestExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		quick, over, yielded := &Pace{}, make(chan struct{}), 0
		w := b.Acquire(func() { yielded++ })
		for _, work := range []func() int{gives(1), func() int { runtime.Goexit(); return 2 }, gives(3)} {
			w.Take(&Job[func() int]{work, quick})
		}
		go func() {
			defer close(over)
			defer b.Release(w)
			defer func() { failed := 4; b.Exit(w, &failed) }()
			b.do(w)
		}()
		<-over
		if got := b.results(); yielded != 1 || !slices.Equal(got, []int{1, 3, 4}) {
			t.Errorf("yielded %d times, results %v", yielded, got)
		}
		if taken, preempted := b.inline(nil, Job[func() int]{gives(5), quick}); taken != 1 || preempted {
			t.Errorf("afterwards taken %d, preempted %t", taken, preempted)
		}
		if got := b.results(); !slices.Equal(got, []int{5}) {
			t.Errorf("afterwards: %v", got)
		}
	})
}

// Jobs that do not begin are seen: in the queue, and with a worker. Those that begin later, or run long, are not.
func TestStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gate := newBench(t), make(chan struct{})
		b.Add([]Job[func() int]{{Work: func() int { <-gate; return 1 }}})
		synctest.Wait()
		running := b.Standing()
		b.Pool.mu.Lock()
		b.waking = true // as if a goroutine had been woken and were lost
		b.Pool.mu.Unlock()
		b.Add([]Job[func() int]{{Work: gives(2)}})
		queued := b.Standing()
		if b.StillStands(running) || !b.StillStands(queued) {
			t.Error("of the queue:", b.StillStands(running), b.StillStands(queued))
		}
		b.Pool.mu.Lock()
		b.waking = false
		b.Pool.mu.Unlock()
		b.Wake()
		synctest.Wait()
		if b.StillStands(queued) {
			t.Error("it stands though it has begun")
		}
		w := b.Acquire(nil) // of a goroutine that is lost in a job
		for range 2 {
			w.Take(&Job[func() int]{gives(3), &Pace{}})
		}
		w.Next(nil)
		taken := b.Standing()
		if !b.StillStands(taken) {
			t.Error("a job of a worker is not seen")
		}
		b.Block(w) // what the watchdog does
		if b.StillStands(taken) {
			t.Error("it stands though the pool has it")
		}
		close(gate)
		b.results()
		w.Next(nil)
		w.Finish()
		b.Release(w)
	})
}
