package executor

import (
	"sync"
	"sync/atomic"
	"time"
)

// Quick is the amount of work, by its pace, that one goroutine takes on at a time: waking another one costs a
// tenth of it.
const Quick = 100 * time.Microsecond

// Job is a piece of work, and how long such work takes.
type Job[W any] struct {
	Work W
	// Pace is the recent duration of such jobs; nil: as long as a disk takes.
	Pace *Pace
}

// Expected returns the expected duration of the job.
func (j *Job[W]) Expected() time.Duration {
	if j.Pace == nil {
		return Quick
	}
	return j.Pace.get() + 1
}

// Pace is the duration of jobs of a kind: a mean in which the last ones count most.
// Concurrent updates may overwrite one another, because it only decides which goroutine
// does what. The zero Pace is the pace of a job that takes no time.
type Pace struct{ mean atomic.Int64 }

// Observe takes in how long a job took.
func (p *Pace) Observe(d time.Duration) {
	mean := p.mean.Load()
	p.mean.Store(mean + (int64(d)-mean)/8)
}

func (p *Pace) get() time.Duration { return time.Duration(p.mean.Load()) }

// Worker does jobs of work W, with results R, one after the other. Only its own
// goroutine calls its methods; Local is that goroutine's too.
type Worker[W, R, L any] struct {
	// Local holds data that the user of the package keeps with a worker.
	Local L

	load  time.Duration // of jobs, by their paces
	place int           // in Pool.all

	mu        sync.Mutex // guards what follows against the watchdog
	busy      bool       // with jobs[next-1]
	jobs      []Job[W]   // jobs[next:] are still to be done
	next      int
	results   []R // to be handed in
	preempted bool
	heldUp    time.Time // when it was preempted
	inline    bool      // the worker is an inline runner's
	yield     func()    // what the inline runner has given to Pool.Acquire
	begun     uint64    // jobs, ever
	seen      uint64    // begun, when the watchdog looked
}

// Take takes on a job if it will be done soon, or if the worker has nothing else to
// do. It reports whether it did.
func (w *Worker[W, R, L]) Take(j *Job[W]) bool {
	expected := j.Expected()
	if len(w.jobs) > 0 && w.load+expected > Quick {
		return false
	}
	w.load += expected
	w.jobs = append(w.jobs, *j)
	return true
}

// Loaded reports whether the worker has jobs.
func (w *Worker[W, R, L]) Loaded() bool { return len(w.jobs) > 0 }

// Next ends the job in progress, with its result unless that is nil, and returns the
// next one; nil if none is left.
func (w *Worker[W, R, L]) Next(result *R) *Job[W] {
	w.mu.Lock()
	defer w.mu.Unlock()
	if result != nil {
		w.results = append(w.results, *result)
	}
	if w.next == len(w.jobs) {
		w.busy = false
		return nil
	}
	w.next++
	w.begun++
	w.busy = true
	return &w.jobs[w.next-1]
}

// standing returns the number of jobs that the worker began, ever, and reports whether others wait until the last one
// ends.
func (w *Worker[W, R, L]) standing() (begun uint64, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun, w.busy && w.next < len(w.jobs) // only the goroutine of an idle worker may read jobs
}

// Finish empties the worker. It returns the results that have not been handed in,
// to be given back by [Worker.Reuse], and reports whether the worker was preempted.
func (w *Worker[W, R, L]) Finish() (results []R, preempted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.jobs)
	results, preempted = w.results, w.preempted
	w.jobs, w.load, w.next, w.preempted = w.jobs[:0], 0, 0, false
	return results, preempted
}

// Reuse gives the memory of the results back.
func (w *Worker[W, R, L]) Reuse(results []R) {
	clear(results)
	w.results = results[:0]
}
