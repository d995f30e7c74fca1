package server

import (
	"math/bits"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// arrival is a command on its way into the core, and where its answer goes.
type arrival struct {
	cmd  link.Command
	to   Sink
	at   time.Time
	core int
	// refused, if set, is its answer: the core is not asked.
	refused *sharding.Reply
	ticket  replies.Ticket
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
	in region.ShardInput
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

// inbox gathers the next batch of inputs of each shard core. What comes from outside
// waits while the batch of its core is full; results of the region's own jobs never
// wait. There is one inbox for all cores, because the memory of replies is bounded for
// all of them together.
type inbox struct {
	mu     sync.Mutex
	room   sync.Cond
	next   []batch // of each core
	limit  int     // of each
	coreOf func(sharding.Entity) int
	over   bool // nobody takes any more

	// The replies that are expected or not yet sent.
	budget  *replies.Budget
	queues  map[Sink]*replies.Queue[arrival]
	kinds   map[sharding.EntityType]map[string]*replies.Kind
	short   replies.Kind // what says only that a tell was accepted, or why a command was not
	waiting int          // goroutines that bring commands
}

// newInbox returns an inbox of so many cores, in which limit messages may wait.
func newInbox(limit, n int, coreOf func(sharding.Entity) int, budget *replies.Budget, kinds map[sharding.EntityType]map[string]*replies.Kind) *inbox {
	b := &inbox{
		next: make([]batch, n), limit: max(1, limit/n), coreOf: coreOf,
		budget: budget, kinds: kinds, queues: map[Sink]*replies.Queue[arrival]{},
	}
	b.room.L = &b.mu
	b.short.Learn(replies.Overhead)
	return b
}

// cores is a set of shard cores. There are at most [region.MaxShardCores].
type cores uint64

func (c *cores) add(core int) { *c |= 1 << core }

// without is the set but for a core.
func (c cores) without(core int) cores { return c &^ (1 << core) }

// next takes one core out of a set that is not empty.
func (c *cores) next() int {
	core := bits.TrailingZeros64(uint64(*c))
	*c = c.without(core)
	return core
}

func (b *inbox) put(core int, items ...item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next[core].items = append(b.next[core].items, items...)
}

// loaded takes the end of a load.
func (b *inbox) loaded(core int, in *turn.Loaded, made bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next[core].loaded = append(b.next[core].loaded, loaded{*in, made})
}

// finished takes the ends of turns.
func (b *inbox) finished(core int, done []finished) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next[core].done = append(b.next[core].done, done...)
}

// arrive takes commands in their order, some of which are refused already, by their
// index, and returns the cores that have something to take in for it. What finds no room
// for its reply waits in the queue of its connection, and is refused if too much waits
// there. It blocks only while the inbox is full, or there is no room even for refusals:
// that is how a region holds back its gateways. It stops when the connection ends. Before
// it blocks, it calls wait with the cores that have something since the last call: they
// are to make room, and may not know of it yet.
func (b *inbox) arrive(to Sink, cmds []link.Command, refused map[int]*sharding.Reply, wait func(cores)) (took cores) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := b.queues[to]
	if queue == nil {
		queue = &replies.Queue[arrival]{}
		b.queues[to] = queue
	}
	b.budget.Unsent(&queue.Account, to.Unsent())
	told := false
	for i := range cmds {
		a := arrival{cmd: cmds[i], to: to, at: now, refused: refused[i]}
		for !b.over && !b.admit(queue, &a, &took) {
			if to.Ended() { // its gateway counts the rest as lost
				queue.Drop(b.budget)
				return took
			}
			if !told {
				b.mu.Unlock()
				wait(took)
				b.mu.Lock()
				told, took = true, 0
			} else {
				b.waiting++
				b.room.Wait()
				b.waiting--
			}
		}
		if b.over {
			return took
		}
		told = false
	}
	return took
}

// Refusals of commands that no entity has seen.
var (
	tooMuchWaits = sharding.Reject(sharding.ResourceExhausted,
		"not run: the region or this entity owes too many replies, and too many commands wait for room (region.link_reply_bytes, region.reply_bytes)")
	waitedTooLong = sharding.Reject(sharding.ResourceExhausted,
		"not run: there was no room for the reply within half of the command's time; the region or this entity owes too many (region.link_reply_bytes, region.reply_bytes)")
)

// admit takes a command in, lets it wait, refuses it or, if its connection has ended,
// drops it. It reports whether there is room for any of these.
func (b *inbox) admit(queue *replies.Queue[arrival], a *arrival, took *cores) bool {
	env := &a.cmd.Envelope
	a.core = b.coreOf(env.Entity)
	if b.next[a.core].len() >= b.limit {
		return false
	}
	r := replies.Request{Entity: env.Entity, Kind: b.kinds[env.Entity.Type][env.Command], Size: env.Size(), Deadline: env.Deadline}
	if r.Kind == nil || env.Tell && !env.Keyed {
		r.Kind = &b.short
	}
	ticket, verdict := queue.Ask(b.budget, a.at, &r, a)
	switch verdict {
	case replies.Waits, replies.Dropped:
		return true
	case replies.Full:
		var ok bool
		if ticket, ok = b.budget.Admit(&queue.Account, &b.short); !ok {
			return false
		}
		a.refused = &tooMuchWaits
	}
	a.ticket = ticket
	b.enter(a, took)
	return true
}

// enter puts one command into the batch of its core.
func (b *inbox) enter(a *arrival, took *cores) {
	b.next[a.core].arrivals = append(b.next[a.core].arrivals, *a)
	took.add(a.core)
}

// advance takes in what has waited and finds room now.
func (b *inbox) advance(took *cores) {
	if b.budget.Waiting() > 0 {
		for to, queue := range b.queues { // order-free: they share by how much each uses
			if queue.Len() > 0 {
				b.advanceOne(to, queue, took)
			}
		}
	}
	if b.waiting > 0 {
		b.room.Broadcast()
	}
}

func (b *inbox) advanceOne(to Sink, queue *replies.Queue[arrival], took *cores) {
	if to.Ended() { // its gateway counts what waits as lost, and may have sent it again
		queue.Drop(b.budget)
		return
	}
	for {
		a, ticket, ok := queue.Next(b.budget)
		if !ok {
			return
		}
		a.ticket = ticket
		b.enter(&a, took)
	}
}

// refuseLate refuses what has waited for too long.
func (b *inbox) refuseLate(queue *replies.Queue[arrival], now time.Time, took *cores) {
	for _, l := range queue.Late(b.budget, now, &b.short) {
		a := l.Command
		a.refused, a.ticket = &waitedTooLong, l.Ticket
		b.enter(&a, took)
	}
}

// grow makes room for a reply that is larger than expected.
func (b *inbox) grow(t *replies.Ticket, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.budget.Grow(t, size)
}

// answered takes in that commands were answered, and that their sink has the
// answers. It returns the cores that have something to take in for it.
func (b *inbox) answered(to Sink, list []ended) (took cores) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.queues[to]; queue != nil {
		b.budget.Unsent(&queue.Account, to.Unsent())
	}
	for i := range list {
		b.budget.Answered(list[i].ticket, list[i].size)
	}
	b.advance(&took)
	return took
}

// drained looks at what sinks have passed on meanwhile, and at what has waited for too
// long. It returns the cores that have something to take in for it.
func (b *inbox) drained() (took cores) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for to, queue := range b.queues { // order-free: each for itself
		b.budget.Unsent(&queue.Account, to.Unsent())
		if queue.Len() > 0 && !to.Ended() {
			b.refuseLate(queue, now, &took)
		}
	}
	b.advance(&took)
	return took
}

// forget drops what is known of a sink that will bring no more commands.
func (b *inbox) forget(to Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.queues[to]; queue != nil {
		queue.Drop(b.budget)
		delete(b.queues, to)
	}
}

// take swaps what has gathered for a core for what is empty in a batch.
func (b *inbox) take(core int, got *batch) {
	b.mu.Lock()
	next := &b.next[core]
	full := next.len() >= b.limit
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

// idle reports whether there is nothing to take in for a core.
func (b *inbox) idle(core int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over || b.next[core].len() == 0
}

// end releases all that wait: nothing is taken any more.
func (b *inbox) end() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.room.Broadcast()
}
