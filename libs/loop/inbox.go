// Package loop is the common part of the drivers of cores: a bounded [Inbox], and a loop ([Run])
// that owns the core and steps it with the items that the inbox has gathered.
//
// # What this does not do
//
// It knows no core, and orders nothing beyond the order of arrival. A core that many goroutines
// step, such as a shard core of a region, needs more.
package loop

import (
	"errors"
	"sync"
)

// Limits bound what waits in an inbox, 0 by nothing. One message larger than Bytes
// finds room when no other waits.
type Limits struct {
	// Items is the number of items that may wait, from all sources together, before items from
	// outside are refused.
	Items int
	// Bytes is the size that offered items may have together.
	Bytes int
}

// Errors of [Inbox.Offer].
var (
	// ErrFull: too much waits. Nothing was taken.
	ErrFull = errors.New("too much waits for the loop")
	// ErrClosed: the loop has ended. Nothing was taken.
	ErrClosed = errors.New("the loop has ended")
)

// Inbox gathers what a loop will take in next, in order of arrival. What comes from
// outside is offered, and refused while too much waits. The results of the loop's own
// jobs are put in, and never refused: no more of them can come than were begun. Its
// methods may be called from anywhere.
type Inbox[T any] struct {
	limits Limits
	wake   chan struct{} // holds a token if something came into the empty inbox

	mu     sync.Mutex
	items  []T
	bytes  int // of those that were offered
	closed bool
}

// NewInbox returns an empty inbox.
func NewInbox[T any](limits Limits) *Inbox[T] {
	return &Inbox[T]{limits: limits, wake: make(chan struct{}, 1)}
}

// Put adds items, next to each other. After Close they are dropped; it reports whether
// they were not.
func (b *Inbox[T]) Put(items ...T) bool {
	return b.Fill(func(waiting []T) []T { return append(waiting, items...) })
}

// Fill is Put for items that are no slice yet: f appends them. It must not wait.
func (b *Inbox[T]) Fill(f func([]T) []T) bool {
	b.mu.Lock()
	was, open := len(b.items), !b.closed
	if open {
		b.items = f(b.items)
	}
	b.mu.Unlock()
	b.signal(was)
	return open
}

// Offer adds items that come from outside and have a size together: all, next to each
// other, or none. It returns ErrFull, ErrClosed or nil.
func (b *Inbox[T]) Offer(size int, items ...T) error {
	b.mu.Lock()
	was := len(b.items)
	switch {
	case b.closed:
		b.mu.Unlock()
		return ErrClosed
	case b.limits.Items > 0 && was+len(items) > b.limits.Items,
		b.limits.Bytes > 0 && b.bytes > 0 && b.bytes+size > b.limits.Bytes:
		b.mu.Unlock()
		return ErrFull
	}
	b.items = append(b.items, items...)
	b.bytes += size
	b.mu.Unlock()
	b.signal(was)
	return nil
}

// signal wakes the loop if it is not awake already: was is the number of items before.
func (b *Inbox[T]) signal(was int) {
	if was == 0 {
		b.Wake()
	}
}

// Wake makes the loop run once more, though nothing may wait.
func (b *Inbox[T]) Wake() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Take returns what waits, and gathers the next items in the memory of spare.
func (b *Inbox[T]) Take(spare []T) []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items, b.bytes = spare[:0], 0
	return items
}

// Close makes the inbox take nothing more. What waits stays.
func (b *Inbox[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
