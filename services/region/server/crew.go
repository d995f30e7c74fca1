package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// slot holds one living instance. All of it belongs to the core's side; jobs
// only look at the instance.
type slot struct {
	inc  turn.Incarnation
	inst *entity.Instance
	ctx  *turnContext // of the turn that is due or under way
}

// job is a turn, or anything else to be done with an instance.
type job struct {
	slot *slot
	run  *turn.Run
	ctx  *turnContext // of the turn
	do   func()       // instead of run
	// pace is what such jobs took of late; nil: as long as a disk takes.
	pace *pace
}

// expect is how long the job may take.
func (j *job) expect() time.Duration {
	if j.pace == nil {
		return quick
	}
	return j.pace.get() + 1
}

// pace is how long jobs of a kind take, as a mean in which the last ones count
// most. Concurrent updates may lose one another: it only decides who does what.
type pace struct{ mean atomic.Int64 }

func (p *pace) took(d time.Duration) {
	mean := p.mean.Load()
	p.mean.Store(mean + (int64(d)-mean)/8)
}

func (p *pace) get() time.Duration { return time.Duration(p.mean.Load()) }

// worker is what one goroutine needs to do jobs one after the other: one of the
// crew, or a visitor, who brought commands and does on the spot what they ask
// for.
type worker struct {
	out   []outgoing    // answers to be sent when the core is let go
	load  time.Duration // of jobs, by their paces
	place int           // in crew.all

	mu   sync.Mutex // while it is busy, the overseer touches what follows
	busy bool       // with jobs[next-1]
	jobs []job      // jobs[next:] are still to be done
	next int
	done []finished // to be handed in
	// relieved: the job that is under way takes long. All else was taken away.
	relieved bool
	leave    func() // told then, so that others do what a visitor is there for
	begun    uint64 // jobs, ever
	seen     uint64 // begun, when the overseer looked
}

// quick is how much work, by its pace, one goroutine takes on at a time: waking
// another one costs a tenth of it.
const quick = 100 * time.Microsecond

// takes takes on a job if it will soon be done with it, or else has nothing to do.
func (w *worker) takes(j *job) bool {
	expect := j.expect()
	if len(w.jobs) > 0 && w.load+expect > quick {
		return false
	}
	w.load += expect
	w.jobs = append(w.jobs, *j)
	return true
}

// begin ends a job and gives the next one, nil if none is left.
func (w *worker) begin(over *finished) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if over.slot != nil {
		w.done = append(w.done, *over)
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

// finish empties the worker. It gives what is to be handed in, and whether the
// worker was relieved.
func (w *worker) finish() (done []finished, relieved bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.jobs)
	done, relieved = w.done, w.relieved
	w.jobs, w.load, w.next, w.relieved = w.jobs[:0], 0, 0, false
	return done, relieved
}

// crew does the jobs that whoever stepped the core could not do at once, on
// goroutines that are used again. There are as many as jobs that block, and a
// few more: whoever leaves jobs behind calls one more worker.
type crew struct {
	// work does what w has to do, and steps the core where that is due.
	work func(w *worker)
	// handIn takes what a worker had done when it was held up.
	handIn func(done []finished)
	ended  <-chan struct{} // nobody is relieved any more

	mu     sync.Mutex
	queue  []job
	head   int
	idle   []chan struct{} // of workers that wait, the last one to wait at the end
	coming bool            // a worker is awake and will look at the queue
	over   bool

	all     []*worker   // of the crew and of visitors
	retired []*worker   // of those, without a visitor
	watched atomic.Bool // by the overseer
}

const (
	// maxIdle is how many workers wait for work; more end. Their stacks are what
	// is worth keeping.
	maxIdle = 64
	// lookEvery is how often the overseer looks who is held up.
	lookEvery = time.Millisecond
	// lookOn is how often he looks when nobody works any more: starting him
	// costs as much as a few looks.
	lookOn = 100
)

// add queues jobs. The slice is the caller's again.
func (c *crew) add(jobs []job) {
	if len(jobs) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue)+len(jobs) > cap(c.queue) && c.head > len(c.queue)/2 {
		n := copy(c.queue, c.queue[c.head:])
		clear(c.queue[n:])
		c.queue, c.head = c.queue[:n], 0
	}
	c.queue = append(c.queue, jobs...)
	c.callLocked()
}

// call makes sure that a worker comes and looks what is to be done.
func (c *crew) call() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callLocked()
}

func (c *crew) callLocked() {
	if c.coming || c.over {
		return
	}
	c.coming = true
	if last := len(c.idle) - 1; last >= 0 {
		wake := c.idle[last]
		c.idle = c.idle[:last]
		wake <- struct{}{}
		return
	}
	go c.run()
}

// run is a worker of the crew.
func (c *crew) run() {
	wake, called := make(chan struct{}, 1), true
	w := c.hire()
	defer c.retire(w)
	for {
		c.mu.Lock()
		if called {
			c.coming = false
		}
		if !c.take(w) && !called {
			if c.over || len(c.idle) == maxIdle {
				c.mu.Unlock()
				return
			}
			c.idle = append(c.idle, wake)
			c.mu.Unlock()
			<-wake
			called = true
			continue
		}
		c.mu.Unlock()
		c.work(w) // also what somebody called for without a job
		called = false
	}
}

// take gives a worker as many of the queued jobs as are quickly done, one at
// least, and calls another one for the rest.
func (c *crew) take(w *worker) bool {
	for c.head < len(c.queue) && w.takes(&c.queue[c.head]) {
		c.queue[c.head] = job{}
		c.head++
	}
	if c.head < len(c.queue) {
		c.callLocked()
	} else {
		c.queue, c.head = c.queue[:0], 0
	}
	return len(w.jobs) > 0
}

// hire gives a worker to a visitor, and retire takes it back.
func (c *crew) hire() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := len(c.retired) - 1; last >= 0 {
		w := c.retired[last]
		c.retired = c.retired[:last]
		return w
	}
	w := &worker{place: len(c.all)}
	c.all = append(c.all, w)
	return w
}

func (c *crew) retire(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.retired) < maxIdle {
		c.retired = append(c.retired, w)
		return
	}
	last := len(c.all) - 1
	c.all[w.place] = c.all[last]
	c.all[w.place].place = w.place
	c.all[last] = nil
	c.all = c.all[:last]
}

// watch starts the overseer if nobody worked for a while. To be called by who has
// become busy.
func (c *crew) watch() {
	if !c.watched.Load() && c.watched.CompareAndSwap(false, true) {
		go c.oversee()
	}
}

// oversee relieves workers that are held up, until nobody has worked for a while.
func (c *crew) oversee() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var all []*worker
	for quiet := 0; ; quiet++ {
		select {
		case <-ticker.C:
		case <-c.ended:
			return
		}
		if quiet >= lookOn {
			c.watched.Store(false) // who becomes busy from now on starts another one
		}
		c.mu.Lock()
		all = append(all[:0], c.all...)
		c.mu.Unlock()
		active := false
		for _, w := range all {
			active = c.look(w) || active
		}
		clear(all)
		switch {
		case active && quiet >= lookOn && !c.watched.CompareAndSwap(false, true):
			return // there is another one
		case active:
			quiet = 0
		case quiet >= lookOn:
			return
		}
	}
}

// look relieves a worker that has been busy with one job since the last look: the
// crew gets the jobs behind it, the core what came before. It tells whether the
// worker has done anything since.
func (c *crew) look(w *worker) (active bool) {
	w.mu.Lock()
	if active = w.busy || w.begun != w.seen; !w.busy || w.relieved || w.begun != w.seen {
		w.seen = w.begun
		w.mu.Unlock()
		return active
	}
	w.relieved = true
	if p := w.jobs[w.next-1].pace; p != nil {
		p.took(8 * lookEvery) // a guess: the next ones like it will be the crew's
	}
	rest, done, leave := slices.Clone(w.jobs[w.next:]), w.done, w.leave
	clear(w.jobs[w.next:])
	w.jobs, w.done = w.jobs[:w.next], nil
	w.mu.Unlock()
	c.add(rest)
	c.handIn(done)
	if leave != nil {
		leave()
	}
	return true
}

// end lets the workers go when they have nothing to do any more.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, wake := range c.idle {
		wake <- struct{}{}
	}
	c.idle = nil
}
