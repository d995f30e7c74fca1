package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// turnContext is the context of one turn. It makes a channel and a timer only
// if the handler asks for them, which most do not. It is also the turn's way to other entities.
type turnContext struct {
	context.Context // of the process, or of the command's trace
	deadline        time.Time

	// For the asks of the turn: see Ask. A goroutine that the handler has left running may ask when the Run
	// belongs to another turn.
	loop   *shardLoop
	inc    turn.Incarnation
	turn   uint64
	trace  string
	worker *worker
	noted  noted
	// storeTime is the newest reading of the clock of the journal's store when the turn began; nil: none.
	storeTime *storeTime
	asking    atomic.Int32 // asks that the turn waits for
	over      bool         // guarded by mu

	handed entity.Ctx // what the handler gets
	mu     sync.Mutex
	made   *made // nil until the handler asks for it
}

// made is a context with a channel and a timer.
type made struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline returns the deadline of the command.
func (c *turnContext) Deadline() (time.Time, bool) {
	if c.deadline.IsZero() {
		return c.Context.Deadline()
	}
	return c.deadline, true
}

// Done returns a channel that is closed at the deadline, or when no caller waits for the turn any more.
func (c *turnContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = &made{}
		if c.deadline.IsZero() {
			c.made.Context, c.made.cancel = context.WithCancel(c.Context)
		} else {
			c.made.Context, c.made.cancel = context.WithDeadline(c.Context, c.deadline)
		}
		if c.over {
			c.made.cancel()
		}
	}
	return c.made.Done()
}

// Err returns the reason why the context has ended.
func (c *turnContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.made != nil:
		return c.made.Err()
	case c.over:
		return context.Canceled
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// end ends the context: the turn is over, or not wanted any more.
func (c *turnContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.made != nil {
		c.made.cancel()
	}
}
