package server

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// slot holds one living instance. It does one job at a time, in order.
type slot struct {
	inst *entity.Instance
	// Guarded by the crew.
	work *slotWork // nil: nothing to do
}

// slotWork is what a slot needs while it is not idle.
type slotWork struct {
	more []job // behind the one that is under way or queued
	ctx  *turnContext
}

// job is a turn, or anything else to be done with an instance.
type job struct {
	slot *slot
	run  turn.Run
	do   func() // instead of run
}

// crew does the jobs of all slots, on goroutines that are used again. There
// are as many as jobs that block, and a few more: whoever takes a job and leaves
// others behind wakes one more worker, so that a slow handler holds up nobody,
// while fast ones are done one after the other by those who are awake.
type crew struct {
	context func(*turn.Run) *turnContext // for the next turn
	// turn runs one that begins now, and tells when it was over.
	turn func(j *job, ctx *turnContext, now time.Time) time.Time

	mu     sync.Mutex
	queue  []job
	head   int
	idle   []chan struct{} // of workers that wait, the last one to wait at the end
	coming bool            // a worker is awake and will look at the queue
	spare  []*slotWork
	over   bool
}

// add queues jobs. The slice is the caller's again.
func (c *crew) add(jobs ...job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range jobs {
		j := &jobs[i]
		if w := j.slot.work; w != nil {
			w.more = append(w.more, *j)
			continue
		}
		j.slot.work = c.slotWork()
		c.push(j)
	}
	c.call()
}

func (c *crew) slotWork() *slotWork {
	if last := len(c.spare) - 1; last >= 0 {
		w := c.spare[last]
		c.spare = c.spare[:last]
		return w
	}
	return &slotWork{}
}

// push queues a job. What was taken makes room first.
func (c *crew) push(j *job) {
	if len(c.queue) == cap(c.queue) && c.head > len(c.queue)/2 {
		n := copy(c.queue, c.queue[c.head:])
		clear(c.queue[n:])
		c.queue, c.head = c.queue[:n], 0
	}
	c.queue = append(c.queue, *j)
}

// call wakes a worker if there is work and nobody is on the way.
func (c *crew) call() {
	if c.coming || c.head == len(c.queue) {
		return
	}
	c.coming = true
	if last := len(c.idle) - 1; last >= 0 {
		wake := c.idle[last]
		c.idle = c.idle[:last]
		wake <- struct{}{}
		return
	}
	go c.work()
}

const (
	// maxIdle is how many workers wait for work; more end. Their stacks are what
	// is worth keeping.
	maxIdle = 64
	// maxSpare is how much slotWork is kept to be used again.
	maxSpare = 1024
)

func (c *crew) work() {
	wake := make(chan struct{}, 1)
	var j job
	var now time.Time // the end of the last turn; zero: some time ago
	for fresh := true; ; {
		c.mu.Lock()
		if fresh {
			c.coming, fresh = false, false
		} else {
			c.finish(&j)
		}
		if !c.take(&j) {
			if c.over || len(c.idle) == maxIdle {
				c.mu.Unlock()
				return
			}
			c.idle = append(c.idle, wake)
			c.mu.Unlock()
			<-wake
			fresh, now = true, time.Time{}
			continue
		}
		var ctx *turnContext
		if j.do == nil {
			ctx = c.context(&j.run)
			j.slot.work.ctx = ctx
		}
		c.call()
		c.mu.Unlock()
		if ctx == nil {
			j.do()
			now = time.Time{}
			continue
		}
		if now.IsZero() {
			now = time.Now()
		}
		now = c.turn(&j, ctx, now)
	}
}

// take takes the next job.
func (c *crew) take(j *job) bool {
	if c.head == len(c.queue) {
		return false
	}
	*j = c.queue[c.head]
	c.queue[c.head] = job{}
	if c.head++; c.head == len(c.queue) {
		c.queue, c.head = c.queue[:0], 0
	}
	return true
}

// finish ends a job: the next one of its slot is queued.
func (c *crew) finish(j *job) {
	w := j.slot.work
	w.ctx = nil
	if len(w.more) > 0 {
		c.push(&w.more[0])
		w.more = w.more[1:]
		return
	}
	j.slot.work, w.more = nil, nil
	if len(c.spare) < maxSpare {
		c.spare = append(c.spare, w)
	}
}

// end lets the workers go when nothing is queued any more.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, wake := range c.idle {
		wake <- struct{}{}
	}
	c.idle = nil
}

// cancel ends the context of the turn that a slot runs.
func (c *crew) cancel(sl *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sl.work != nil && sl.work.ctx != nil {
		sl.work.ctx.end()
	}
}
