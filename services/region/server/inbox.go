package server

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// arrival is a command on its way into the core, and who gets its answer.
type arrival struct {
	command region.Command // its Request is given by the loop
	to      Sink
	corr    uint64
	at      time.Time
}

// loaded is the end of a load, and the instance that was made.
type loaded struct {
	in   turn.Loaded
	slot *slot // nil: none was made
}

// item is any other thing for the loop to take in.
type item struct {
	in region.Input
	do func() // instead of in: look at the core from inside the loop
}

// batch is what the loop takes in at a time. What is frequent has a slice of its
// own kind, so that nothing is allocated for it.
type batch struct {
	loaded   []loaded
	done     []turn.TurnDone
	arrivals []arrival
	items    []item
}

func (b *batch) len() int { return len(b.loaded) + len(b.done) + len(b.arrivals) + len(b.items) }

// reset empties a batch but keeps its memory.
func (b *batch) reset() {
	clear(b.loaded)
	clear(b.done)
	clear(b.arrivals)
	clear(b.items)
	b.loaded, b.done, b.arrivals, b.items = b.loaded[:0], b.done[:0], b.arrivals[:0], b.items[:0]
}

// inbox gathers what the loop will take in as one batch. What comes from
// outside waits while it is full; answers of our own slow jobs never do.
type inbox struct {
	mu    sync.Mutex
	room  sync.Cond
	next  batch
	limit int
	over  bool // nobody takes any more
	wake  chan struct{}
}

func newInbox(limit int) *inbox {
	b := &inbox{limit: limit, wake: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

func (b *inbox) put(items ...item) {
	b.mu.Lock()
	idle := b.next.len() == 0
	b.next.items = append(b.next.items, items...)
	b.mu.Unlock()
	b.signal(idle)
}

// loaded takes the end of a load.
func (b *inbox) loaded(in *turn.Loaded, sl *slot) {
	b.mu.Lock()
	idle := b.next.len() == 0
	b.next.loaded = append(b.next.loaded, loaded{*in, sl})
	b.mu.Unlock()
	b.signal(idle)
}

// turnDone takes the end of a turn.
func (b *inbox) turnDone(d *turn.TurnDone) {
	b.mu.Lock()
	idle := b.next.len() == 0
	b.next.done = append(b.next.done, *d)
	b.mu.Unlock()
	b.signal(idle)
}

// arrive takes commands. It blocks while the inbox is full: that is how a
// region holds back its gateways.
func (b *inbox) arrive(to Sink, cmds []link.Command) {
	now := time.Now()
	b.mu.Lock()
	for b.next.len() >= b.limit && !b.over {
		b.room.Wait()
	}
	idle := b.next.len() == 0
	for i := range cmds {
		c := &cmds[i]
		b.next.arrivals = append(b.next.arrivals, arrival{
			command: region.Command{Epoch: c.Epoch, Env: c.Envelope}, to: to, corr: c.Corr, at: now,
		})
	}
	b.mu.Unlock()
	b.signal(idle)
}

// signal wakes the loop, unless there was something to take in before: then it
// is awake or was told already.
func (b *inbox) signal(idle bool) {
	if !idle {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take swaps what has gathered for an empty batch.
func (b *inbox) take(empty batch) batch {
	b.mu.Lock()
	full := b.next.len() >= b.limit
	got := b.next
	b.next = empty
	b.mu.Unlock()
	if full {
		b.room.Broadcast()
	}
	return got
}

// idle tells whether there is nothing to take in.
func (b *inbox) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next.len() == 0
}

// end lets go of everybody who waits: nothing is taken any more.
func (b *inbox) end() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.room.Broadcast()
}
