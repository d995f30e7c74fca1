package loop

import (
	"context"
	"runtime"
	"time"
)

// longestWait is the longest time between two ticks, however long the core has nothing to do.
const longestWait = time.Second

// Run calls step with what the inbox has gathered, whenever something has, and with tick
// set when time has passed, until ctx ends. Before it takes a batch, it lets others run once. What
// had arrived before a tick is in its batch. The batch is used again: step must not keep it.
//
// Ticks come every so often, or later: after each step, due returns the time before which a tick
// does nothing unless something comes in. It may be long past. A nil due makes every tick come.
func Run[T any](ctx context.Context, inbox *Inbox[T], every time.Duration, due func() time.Time, step func(batch []T, tick bool)) {
	last := time.Now() // when a tick came last
	next := last.Add(every)
	timer := time.NewTimer(every)
	defer timer.Stop()
	var spare []T
	for ctx.Err() == nil {
		tick := false
		select {
		case <-ctx.Done():
			return
		case <-inbox.wake:
			// First let others run that are ready: what they add is in this batch. Each batch costs a
			// wake-up, and a write if it sends something.
			runtime.Gosched()
		case <-timer.C:
			tick, last = true, time.Now()
		}
		batch := inbox.Take(spare)
		step(batch, tick)
		clear(batch)
		spare = batch
		at := last.Add(every)
		if due != nil {
			if d := due(); d.After(at) {
				at = d
			}
			if longest := last.Add(longestWait); at.After(longest) {
				at = longest
			}
		}
		// A timer that would come too early is left as it is: to set it costs as much as some inputs do.
		if tick || at.Before(next) {
			next = at
			timer.Reset(time.Until(at))
		}
	}
}

// Do runs f in a loop and returns its result. put brings a function into the loop, and
// ended is closed when the loop has ended; then, or when ctx ends, Do returns an error,
// and f may run all the same.
func Do(ctx context.Context, ended <-chan struct{}, put func(func()) error, f func() error) error {
	done := make(chan error, 1)
	if err := put(func() { done <- f() }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
		return ErrClosed
	}
}
