package agent

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
)

// inbox is what waits for the loop: inputs for the core, in their order, or
// things to do between steps.
type inbox struct {
	signal chan struct{} // has a value while there may be something
	most   int

	mu     sync.Mutex
	items  []item
	closed bool
}

type item struct {
	in gossip.Input
	do func()
	at time.Time // of arrival, if a message
}

// aged is the input, knowing for how long it waited if it is a message.
func (i item) aged(now time.Time) gossip.Input {
	if r, ok := i.in.(gossip.Receive); ok {
		r.Waited = now.Sub(i.at)
		return r
	}
	return i.in
}

func newInbox(most int) *inbox { return &inbox{signal: make(chan struct{}, 1), most: most} }

// put adds items as a unit. It refuses messages beyond the limit, and
// everything once the loop has ended; requests of this process always fit.
func (b *inbox) put(fromOutside bool, items ...item) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || fromOutside && len(b.items)+len(items) > b.most {
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
