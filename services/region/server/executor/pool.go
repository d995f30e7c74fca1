package executor

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxIdle is the maximum number of goroutines that wait for work; more end. They are kept for their stacks.
	MaxIdle = 64
	// WatchdogInterval is the time between two looks at the workers.
	WatchdogInterval = time.Millisecond
	// watchdogLinger is the number of further looks that the watchdog takes when no worker works any more.
	// Starting it costs about as much as two looks: each is a timer that wakes the process.
	watchdogLinger = 2
)

// Pool does the jobs that could not be done inline, on goroutines that are used
// again. Make one with [New].
type Pool[W, R, L any] struct {
	work   func(*Worker[W, R, L])
	handIn func([]R)
	yield  func(func())
	ended  <-chan struct{}

	mu     sync.Mutex
	queue  []Job[W]
	head   int
	added  uint64          // jobs to the queue, ever
	idle   []chan struct{} // of goroutines that wait, the last one to wait at the end
	waking bool            // a goroutine is awake and will look at the queue
	over   bool

	all     []*Worker[W, R, L] // those that are acquired, and spare
	spare   []*Worker[W, R, L]
	watched atomic.Bool // by the watchdog
}

// New returns a pool. Its goroutines call work, which does the jobs of a worker and whatever
// else there is to do; work is also called without jobs, after [Pool.Wake]. The watchdog
// calls handIn with the results of a worker that is held up; the slice is the callee's. If
// that is an inline runner's, it then calls yield with the function that [Pool.Acquire] was
// given. After ended is closed, the watchdog preempts no worker any more.
func New[W, R, L any](work func(*Worker[W, R, L]), handIn func([]R), yield func(func()), ended <-chan struct{}) *Pool[W, R, L] {
	return &Pool[W, R, L]{work: work, handIn: handIn, yield: yield, ended: ended}
}

// Add queues jobs. The slice is the caller's again.
func (p *Pool[W, R, L]) Add(jobs []Job[W]) {
	if len(jobs) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue)+len(jobs) > cap(p.queue) && p.head > len(p.queue)/2 {
		n := copy(p.queue, p.queue[p.head:])
		clear(p.queue[n:])
		p.queue, p.head = p.queue[:n], 0
	}
	p.queue = append(p.queue, jobs...)
	p.added += uint64(len(jobs))
	p.wakeLocked()
}

// Wake makes sure that a goroutine of the pool calls work soon.
func (p *Pool[W, R, L]) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeLocked()
}

func (p *Pool[W, R, L]) wakeLocked() {
	if p.waking || p.over {
		return
	}
	p.waking = true
	if last := len(p.idle) - 1; last >= 0 {
		wake := p.idle[last]
		p.idle = p.idle[:last]
		wake <- struct{}{}
		return
	}
	go p.run()
}

// run is a goroutine of the pool.
func (p *Pool[W, R, L]) run() {
	wake, woken := make(chan struct{}, 1), true
	w := p.acquire(false, nil)
	defer p.Release(w)
	for {
		p.mu.Lock()
		if woken {
			p.waking = false
		}
		if !p.takeLocked(w) && !woken {
			if p.over || len(p.idle) == MaxIdle {
				p.mu.Unlock()
				return
			}
			p.idle = append(p.idle, wake)
			p.mu.Unlock()
			<-wake
			woken = true
			continue
		}
		p.mu.Unlock()
		p.work(w) // also if it was woken without a job
		woken = false
	}
}

// takeLocked gives a worker as many of the queued jobs as are quickly done, one at
// least, and wakes another goroutine for the rest. It reports whether there were any.
func (p *Pool[W, R, L]) takeLocked(w *Worker[W, R, L]) bool {
	for p.head < len(p.queue) && w.Take(&p.queue[p.head]) {
		p.queue[p.head] = Job[W]{}
		p.head++
	}
	if p.head < len(p.queue) {
		p.wakeLocked()
	} else {
		p.queue, p.head = p.queue[:0], 0
	}
	return w.Loaded()
}

// Acquire returns a worker for an inline runner. If the runner is held up by a job, the yield of
// [New] is called with this one from another goroutine.
func (p *Pool[W, R, L]) Acquire(yield func()) *Worker[W, R, L] { return p.acquire(true, yield) }

func (p *Pool[W, R, L]) acquire(inline bool, yield func()) *Worker[W, R, L] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.spare) - 1; last >= 0 {
		w := p.spare[last]
		p.spare = p.spare[:last]
		w.inline, w.yield = inline, yield
		return w
	}
	w := &Worker[W, R, L]{place: len(p.all), inline: inline, yield: yield}
	p.all = append(p.all, w)
	return w
}

// Release takes a worker back.
func (p *Pool[W, R, L]) Release(w *Worker[W, R, L]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.inline, w.yield = false, nil
	if len(p.spare) < MaxIdle {
		p.spare = append(p.spare, w)
		return
	}
	last := len(p.all) - 1
	p.all[w.place] = p.all[last]
	p.all[w.place].place = w.place
	p.all[last] = nil
	p.all = p.all[:last]
}

// Watch starts the watchdog unless it is running. A goroutine that begins to work calls it.
func (p *Pool[W, R, L]) Watch() {
	if !p.watched.Load() && p.watched.CompareAndSwap(false, true) {
		go p.watchdog()
	}
}

// watchdog preempts workers that are held up, until no worker has worked for a while.
func (p *Pool[W, R, L]) watchdog() {
	ticker := time.NewTicker(WatchdogInterval)
	defer ticker.Stop()
	var all []*Worker[W, R, L]
	for quiet := 0; ; quiet++ {
		select {
		case <-ticker.C:
		case <-p.ended:
			return
		}
		if quiet >= watchdogLinger {
			p.watched.Store(false) // a goroutine that begins to work from now on starts another one
		}
		p.mu.Lock()
		all = append(all[:0], p.all...)
		p.mu.Unlock()
		active := false
		for _, w := range all {
			active = p.look(w) || active
		}
		clear(all)
		switch {
		case active && quiet >= watchdogLinger && !p.watched.CompareAndSwap(false, true):
			return // there is another one
		case active:
			quiet = 0
		case quiet >= watchdogLinger:
			return
		}
	}
}

// look preempts a worker that has been busy with one job since the last look. It
// reports whether the worker has done anything since.
func (p *Pool[W, R, L]) look(w *Worker[W, R, L]) (active bool) {
	w.mu.Lock()
	if active = w.busy || w.begun != w.seen; !w.busy || w.preempted || w.begun != w.seen {
		w.seen = w.begun
		w.mu.Unlock()
		return active
	}
	p.preempt(w)
	return true
}

// Block preempts the worker at once, because its current job is about to wait for something
// that others may have to do first. The job calls it.
func (p *Pool[W, R, L]) Block(w *Worker[W, R, L]) {
	w.mu.Lock()
	if !w.busy || w.preempted {
		w.mu.Unlock()
		return
	}
	p.preempt(w)
}

// preempt takes the remaining jobs and the results from a worker, but not its current job. The worker is
// locked, and preempt unlocks it.
func (p *Pool[W, R, L]) preempt(w *Worker[W, R, L]) {
	w.preempted, w.heldUp = true, time.Now()
	if pace := w.jobs[w.next-1].Pace; pace != nil {
		pace.Observe(8 * WatchdogInterval) // a guess, so that the pool does the next ones
	}
	rest, results, inline, yield := slices.Clone(w.jobs[w.next:]), w.results, w.inline, w.yield
	clear(w.jobs[w.next:])
	w.jobs, w.results = w.jobs[:w.next], nil
	w.mu.Unlock()
	p.Add(rest)
	p.handIn(results)
	if inline {
		p.yield(yield)
	}
}

// Exit takes everything from a worker whose goroutine ends in the middle of a job, because the job has called
// runtime.Goexit. result is the result of the job; nil: it has none. A deferred function of that goroutine
// calls it. Without it the jobs that the worker has taken would never begin, and no other goroutine would do
// what an inline runner does besides.
func (p *Pool[W, R, L]) Exit(w *Worker[W, R, L], result *R) {
	p.Block(w)
	w.Next(result)
	results, _ := w.Finish()
	p.handIn(results)
	w.Reuse(nil) // the results are the callee's
}

// Standing identifies the jobs that waited in a pool at one time: see [Pool.StillStands].
type Standing[W, R, L any] struct {
	added   uint64 // jobs to the queue, ever
	workers map[*Worker[W, R, L]]uint64
}

// Standing notes which jobs wait to begin.
func (p *Pool[W, R, L]) Standing() Standing[W, R, L] {
	s := Standing[W, R, L]{workers: map[*Worker[W, R, L]]uint64{}}
	p.mu.Lock()
	s.added = p.added
	all := slices.Clone(p.all)
	p.mu.Unlock()
	for _, w := range all {
		if begun, waits := w.standing(); waits {
			s.workers[w] = begun
		}
	}
	return s
}

// StillStands reports whether one of the jobs that waited then still waits. The queue is served in order, and a
// worker does its jobs in order.
func (p *Pool[W, R, L]) StillStands(s Standing[W, R, L]) bool {
	p.mu.Lock()
	began := p.added - uint64(len(p.queue)-p.head)
	p.mu.Unlock()
	if began < s.added {
		return true
	}
	for w, begun := range s.workers { // order-free: any of them
		if now, waits := w.standing(); waits && now == begun {
			return true
		}
	}
	return false
}

// HeldUp calls see with each job that holds up its worker now, and with the time since when it does. That is
// one or two intervals of the watchdog after the job has begun. The worker does not end the job while see looks
// at it, so see must be quick.
func (p *Pool[W, R, L]) HeldUp(see func(job W, since time.Time)) {
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock()
	for _, w := range all {
		w.mu.Lock()
		if w.preempted {
			see(w.jobs[w.next-1].Work, w.heldUp)
		}
		w.mu.Unlock()
	}
}

// End lets the goroutines go when they have nothing to do any more.
func (p *Pool[W, R, L]) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, wake := range p.idle {
		wake <- struct{}{}
	}
	p.idle = nil
}
