package server

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/replies"
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

	// What is owed to those who brought commands.
	budget   *replies.Budget
	accounts map[Sink]*replies.Account
	kinds    map[sharding.EntityType]map[string]*replies.Kind
	short    replies.Kind // what says only that a tell was accepted, or why a command was not
	waiting  int          // goroutines that bring commands
}

func newInbox(limit int, kinds map[sharding.EntityType]map[string]*replies.Kind) *inbox {
	b := &inbox{limit: limit, kinds: kinds, accounts: map[Sink]*replies.Account{}}
	b.room.L = &b.mu
	b.short.Learn(replies.Overhead)
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

// arrive takes commands in their order, some of which are refused already, by their
// index. It blocks while the inbox is full or there is no room for the replies:
// that is how a region holds back its gateways. It calls wait before, whenever it has
// put something in since: whoever is to make room may not know of that yet.
func (b *inbox) arrive(to Sink, cmds []link.Command, refused map[int]*sharding.Reply, wait func()) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	account := b.accounts[to]
	if account == nil {
		account = &replies.Account{}
		b.accounts[to] = account
	}
	b.budget.Unsent(account, to.Unsent())
	told := false
	for i := range cmds {
		c := &cmds[i]
		ticket, ok := b.admit(account, &c.Envelope)
		for !ok && !b.over {
			if !told {
				b.mu.Unlock()
				wait()
				b.mu.Lock()
				told = true
			} else {
				b.waiting++
				b.room.Wait()
				b.waiting--
			}
			ticket, ok = b.admit(account, &c.Envelope)
		}
		if b.over {
			return
		}
		b.next.arrivals = append(b.next.arrivals, arrival{
			epoch: c.Epoch, env: c.Envelope, to: to, corr: c.Corr, at: now, refused: refused[i], ticket: ticket,
		})
		told = false
	}
}

// admit takes a command on if there is room for it and for its reply.
func (b *inbox) admit(account *replies.Account, env *sharding.Envelope) (replies.Ticket, bool) {
	if b.next.len() >= b.limit {
		return replies.Ticket{}, false
	}
	kind := b.kinds[env.Entity.Type][env.Command]
	if kind == nil || env.Tell && !env.Keyed {
		kind = &b.short
	}
	return b.budget.Admit(account, kind)
}

// grow makes room for a reply that is larger than expected.
func (b *inbox) grow(t *replies.Ticket, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.budget.Grow(t, size)
}

// answered takes in that commands were answered, and that their sink has the
// answers.
func (b *inbox) answered(to Sink, list []ended) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if account := b.accounts[to]; account != nil {
		b.budget.Unsent(account, to.Unsent())
	}
	for i := range list {
		b.budget.Answered(list[i].ticket, list[i].size)
	}
	if b.waiting > 0 {
		b.room.Broadcast()
	}
}

// drained looks at what sinks have passed on meanwhile.
func (b *inbox) drained() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for to, account := range b.accounts { // order-free: each for itself
		b.budget.Unsent(account, to.Unsent())
	}
	if b.waiting > 0 {
		b.room.Broadcast()
	}
}

// forget drops the account of a sink that will bring no more commands.
func (b *inbox) forget(to Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if account := b.accounts[to]; account != nil {
		b.budget.Unsent(account, 0)
		delete(b.accounts, to)
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
