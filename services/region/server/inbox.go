package server

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// arrival is a command on its way into the core, and who gets its answer.
type arrival struct {
	epoch sharding.Epoch
	env   sharding.Envelope
	to    Sink
	corr  uint64
	at    time.Time
	// refused, if set, is its answer: the core is not asked.
	refused *sharding.Reply
}

// loaded is the end of a load, and whether an instance was made.
type loaded struct {
	in   turn.Loaded
	made bool // there is one
}

// finished is the end of a turn.
type finished struct {
	in   turn.TurnDone
	slot *slot
}

// item is any other thing to take in.
type item struct {
	in region.Input
	do func() // instead of in: look at the core from inside
}

// batch is what is taken in at a time. What is frequent has a slice of its own
// kind, so that nothing is allocated for it.
type batch struct {
	loaded   []loaded
	done     []finished
	arrivals []arrival
	items    []item
}

func (b *batch) len() int { return len(b.loaded) + len(b.done) + len(b.arrivals) + len(b.items) }

// reset empties a batch, its arrivals only if they are all taken, but keeps its
// memory.
func (b *batch) reset(taken bool) {
	clear(b.loaded)
	clear(b.done)
	clear(b.items)
	b.loaded, b.done, b.items = b.loaded[:0], b.done[:0], b.items[:0]
	if taken {
		clear(b.arrivals)
		b.arrivals = b.arrivals[:0]
	}
}

// inbox gathers what the core will take in as one batch. What comes from
// outside waits while it is full; answers of our own slow jobs never do.
type inbox struct {
	mu    sync.Mutex
	room  sync.Cond
	next  batch
	limit int
	over  bool // nobody takes any more
}

func newInbox(limit int) *inbox {
	b := &inbox{limit: limit}
	b.room.L = &b.mu
	return b
}

func (b *inbox) put(items ...item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next.items = append(b.next.items, items...)
}

// loaded takes the end of a load.
func (b *inbox) loaded(in *turn.Loaded, made bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next.loaded = append(b.next.loaded, loaded{*in, made})
}

// finished takes the ends of turns.
func (b *inbox) finished(done []finished) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next.done = append(b.next.done, done...)
}

// arrive takes commands, some of which are refused already, by their index. It blocks while the inbox is full: that is how a
// region holds back its gateways.
func (b *inbox) arrive(to Sink, cmds []link.Command, refused map[int]*sharding.Reply) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.next.len() >= b.limit && !b.over {
		b.room.Wait()
	}
	for i := range cmds {
		c := &cmds[i]
		b.next.arrivals = append(b.next.arrivals, arrival{
			epoch: c.Epoch, env: c.Envelope, to: to, corr: c.Corr, at: now, refused: refused[i],
		})
	}
}

// take swaps what has gathered for what is empty in a batch.
func (b *inbox) take(got *batch) {
	b.mu.Lock()
	full := b.next.len() >= b.limit
	next := &b.next
	got.loaded, next.loaded = next.loaded, got.loaded
	got.done, next.done = next.done, got.done
	got.items, next.items = next.items, got.items
	if len(got.arrivals) == 0 {
		got.arrivals, next.arrivals = next.arrivals, got.arrivals
	}
	b.mu.Unlock()
	if full {
		b.room.Broadcast()
	}
}

// idle tells whether there is nothing to take in.
func (b *inbox) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over || b.next.len() == 0
}

// end lets go of everybody who waits: nothing is taken any more.
func (b *inbox) end() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.room.Broadcast()
}
