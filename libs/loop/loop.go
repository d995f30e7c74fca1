package loop

import (
	"context"
	"time"
)

// Run calls step with what the inbox has gathered, whenever something has, and with tick
// set every so often, until ctx ends. What had arrived before a tick is in its batch. The
// batch is used again: step must not keep it.
func Run[T any](ctx context.Context, inbox *Inbox[T], every time.Duration, step func(batch []T, tick bool)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var spare []T
	for ctx.Err() == nil {
		tick := false
		select {
		case <-ctx.Done():
			return
		case <-inbox.wake:
		case <-ticker.C:
			tick = true
		}
		batch := inbox.Take(spare)
		step(batch, tick)
		clear(batch)
		spare = batch
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
