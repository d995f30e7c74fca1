package agent

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
)

// inbox holds what waits for the loop: inputs for the core, in order, and
// functions to call between steps.
type inbox struct {
	signal chan struct{} // has a value while there may be items
	limit  int           // of messages

	mu     sync.Mutex
	items  []item
	closed bool
}

type item struct {
	in gossip.Input
	do func()
	at time.Time // of arrival, if in is a message
}

// withWait is the input, with the time that it waited if it is a message.
func (i item) withWait(now time.Time) gossip.Input {
	if r, ok := i.in.(gossip.Receive); ok {
		r.Waited = now.Sub(i.at)
		return r
	}
	return i.in
}

func newInbox(limit int) *inbox { return &inbox{signal: make(chan struct{}, 1), limit: limit} }

// put adds all items or none, and reports whether it did. It refuses messages
// from outside beyond the limit, and everything once the loop has ended.
func (b *inbox) put(fromOutside bool, items ...item) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || fromOutside && len(b.items)+len(items) > b.limit {
		return false
	}
	b.items = append(b.items, items...)
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
}

func (b *inbox) take() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
