package node

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// loopWait is the time that one request to /livez waits for a loop. A loop that is merely busy
// answers later, and the next request checks whether it has.
const loopWait = 250 * time.Millisecond

// loopCheck is the liveness check of one loop: it asks the loop to do nothing, and waits. At most
// one question is on its way at a time. A question that has had no answer for a long time means
// that the loop stands still. A process that was paused answers as soon as it runs again.
type loopCheck struct {
	stalled time.Duration // after which time without an answer the loop stands still
	ask     func()        // returns when the loop has run, or has ended

	mu       sync.Mutex
	asked    time.Time     // when the question on its way was asked
	answered chan struct{} // closed when the loop answers; nil: no question is on its way
}

func (c *loopCheck) check(ctx context.Context) error {
	answered, asked := c.question()
	wait := time.NewTimer(loopWait)
	defer wait.Stop()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
	case <-wait.C:
	}
	if stood := time.Since(asked); stood >= c.stalled {
		return fmt.Errorf("has stood still for %s; health.stalled_after is %s", stood.Round(time.Second), c.stalled)
	}
	return nil
}

// question returns the question that is on its way, or asks one.
func (c *loopCheck) question() (<-chan struct{}, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered == nil {
		answered := make(chan struct{})
		c.answered, c.asked = answered, time.Now()
		go func() {
			c.ask()
			c.mu.Lock()
			c.answered = nil
			c.mu.Unlock()
			close(answered)
		}()
	}
	return c.answered, c.asked
}

// Loop adds a loop to /livez, which fails when the loop has stood still for health.stalled_after.
// put brings a function into the loop. The loop has ended when ended is closed. Loop is called when
// the loop starts: a wait of the process before that is not a reason to restart it.
func (n *Node) Loop(name string, ended <-chan struct{}, put func(func())) {
	c := &loopCheck{stalled: n.config.StalledAfter, ask: func() {
		ran := make(chan struct{})
		put(func() { close(ran) })
		select {
		case <-ran:
		case <-ended:
		}
	}}
	n.live.add(name, c.check)
}
