package server

import (
	"math/bits"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
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
	// refused, if set, is the answer to the command: it does not enter the core.
	refused *sharding.Reply
	input   instance.Decoded // if it was decoded already
	ticket  replies.Ticket
}

// loaded is the end of a load.
type loaded struct {
	in   turn.Loaded
	made bool // an instance was made
}

// finished is the end of a turn.
type finished struct {
	in   turn.TurnDone
	slot *slot
}

// item is any other input of a shard core.
type item struct {
	in region.ShardInput
	do func() // instead of in: called with the core locked
}

// batch holds the inputs that a shard core takes in at a time. Each frequent kind of input has a slice of its
// own, so that nothing is allocated for it.
type batch struct {
	loaded   []loaded
	done     []finished
	arrivals []arrival
	items    []item
}

func (b *batch) len() int { return len(b.loaded) + len(b.done) + len(b.arrivals) + len(b.items) }

// reset empties a batch but keeps its memory. The arrivals are kept unless all are taken.
func (b *batch) reset(allTaken bool) {
	clear(b.loaded)
	clear(b.done)
	clear(b.items)
	b.loaded, b.done, b.items = b.loaded[:0], b.done[:0], b.items[:0]
	if allTaken {
		clear(b.arrivals)
		b.arrivals = b.arrivals[:0]
	}
}

// inbox gathers the next batch of inputs of each shard core. Commands wait while the batch
// of their core is full; results of the region's own jobs never wait. There is one inbox
// for all cores, because the memory of replies is bounded for all of them together.
//
// Several methods return the set of cores that have new inputs. The caller must make sure that a goroutine
// steps them.
type inbox struct {
	mu     sync.Mutex
	room   sync.Cond // signals that a batch was taken, or that there may be room for more replies
	next   []batch   // by core
	limit  int       // inputs in a batch, above which commands wait
	coreOf func(sharding.Entity) int
	ended  bool // nothing is taken any more

	// The replies that are expected or not yet sent.
	budget    *replies.Budget
	queues    map[Sink]*replies.Queue[arrival]
	estimates map[sharding.EntityType]map[string]*replies.SizeEstimate
	// lastEstimate is the estimate of the last command, because many of one kind follow each other.
	lastEstimate struct {
		typ      sharding.EntityType
		command  string
		estimate *replies.SizeEstimate
	}
	// shortReply estimates replies without a payload: that a tell was accepted, or why
	// a command was refused.
	shortReply replies.SizeEstimate
	blocked    int // goroutines that bring commands and wait for room
	// stir is called when something begins to wait for room: only ticks, by refresh, look for it.
	stir func()
}

// newInbox returns an inbox for n cores, in which limit messages may wait.
func newInbox(limit, n int, coreOf func(sharding.Entity) int, budget *replies.Budget, estimates map[sharding.EntityType]map[string]*replies.SizeEstimate) *inbox {
	b := &inbox{
		next: make([]batch, n), limit: max(1, limit/n), coreOf: coreOf,
		budget: budget, estimates: estimates, queues: map[Sink]*replies.Queue[arrival]{}, stir: func() {},
	}
	b.room.L = &b.mu
	b.shortReply.Learn(replies.Overhead)
	return b
}

// cores is a set of shard cores. There are at most [region.MaxShardCores].
type cores uint64

func (c *cores) add(core int) { *c |= 1 << core }

// without returns the set without one core.
func (c cores) without(core int) cores { return c &^ (1 << core) }

// next removes one core from the set and returns it. The set must not be empty.
func (c *cores) next() int {
	core := bits.TrailingZeros64(uint64(*c))
	*c = c.without(core)
	return core
}

// put adds inputs of other kinds.
func (b *inbox) put(core int, items ...item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next[core].items = append(b.next[core].items, items...)
}

// putLoaded adds the end of a load.
func (b *inbox) putLoaded(core int, in *turn.Loaded, made bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next[core].loaded = append(b.next[core].loaded, loaded{*in, made})
}

// putFinished adds the ends of turns. It keeps the slice, and returns another one to be used instead.
func (b *inbox) putFinished(core int, done []finished) (spare []finished) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := &b.next[core]
	if len(next.done) == 0 { // mostly so: nothing is copied
		spare, next.done = next.done, done
		return spare
	}
	next.done = append(next.done, done...)
	clear(done)
	return done[:0]
}

// arrive adds commands in their order, and returns the cores that have new inputs. refused
// has, by index, the answers to commands that are refused already. inputs has those that were
// decoded already; nil: none. A command for whose
// reply there is no room waits in the queue of its connection, and is refused if too many
// wait there.
//
// arrive blocks only while the inbox is full, or while there is no room even for refusals:
// that is how a region holds back its gateways. It returns early when the connection ends.
// Before it blocks, it calls beforeBlock with the cores that have got new inputs since the
// last such call: these cores must make the room, and perhaps no goroutine is stepping
// them.
func (b *inbox) arrive(to Sink, cmds []link.Command, refused map[int]*sharding.Reply, inputs []instance.Decoded, beforeBlock func(cores)) (ready cores) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := b.queues[to]
	if queue == nil {
		queue = &replies.Queue[arrival]{}
		b.queues[to] = queue
	}
	b.budget.SetUnsent(&queue.Account, to.Unsent())
	announced := false // beforeBlock was called for this command
	for i := range cmds {
		a := arrival{cmd: cmds[i], to: to, at: now, refused: refused[i], core: b.coreOf(cmds[i].Envelope.Entity)}
		var input instance.Decoded
		if inputs != nil {
			input = inputs[i]
		}
		for !b.ended && (b.full(&a) || !b.admit(queue, &a, input, &ready)) {
			if to.Ended() { // its gateway counts the rest as lost
				queue.Drop(b.budget)
				return ready
			}
			if !announced {
				b.mu.Unlock()
				beforeBlock(ready)
				b.mu.Lock()
				announced, ready = true, 0
			} else {
				b.blocked++
				b.stir()
				b.room.Wait()
				b.blocked--
			}
		}
		if b.ended {
			return ready
		}
		announced = false
	}
	return ready
}

// arriveHere adds a command of an entity of this region, and returns the cores that have new
// inputs. It never blocks, and takes the command however much waits: the router which brings
// it admits a limited number of commands. It returns false if there is no room for the reply,
// not even if that is a refusal.
func (b *inbox) arriveHere(to Sink, cmd *link.Command) (ready cores, taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := b.queues[to]
	if queue == nil {
		queue = &replies.Queue[arrival]{}
		b.queues[to] = queue
	}
	a := arrival{cmd: *cmd, to: to, at: time.Now(), core: b.coreOf(cmd.Envelope.Entity)}
	return ready, !b.ended && b.admit(queue, &a, instance.Decoded{}, &ready)
}

// maxKeptInputs bounds the inputs that may wait for a core before a command whose decoded input is kept. A
// command that waits after more inputs, or for room for its reply, is decoded again when it runs. So the memory
// of waiting commands is the memory of their payloads.
const maxKeptInputs = 1 << 10

// full reports whether too much waits for the core of a command.
func (b *inbox) full(a *arrival) bool { return b.next[a.core].len() >= b.limit }

// Refusals of commands that no entity has seen.
var (
	tooMuchWaits = sharding.Reject(sharding.ResourceExhausted,
		"not run: the region or this entity owes too many replies, and too many commands wait for room (region.link_reply_bytes, region.reply_bytes)")
	waitedTooLong = sharding.Reject(sharding.ResourceExhausted,
		"not run: there was no room for the reply within half of the command's time; the region or this entity owes too many (region.link_reply_bytes, region.reply_bytes)")
)

// admit lets a command enter, with its input if that was decoded already, lets it wait, refuses it or, if its
// connection has ended, drops it. It returns false if there is no room for any of these.
func (b *inbox) admit(queue *replies.Queue[arrival], a *arrival, input instance.Decoded, ready *cores) bool {
	env := &a.cmd.Envelope
	r := replies.Request{Entity: env.Entity, Estimate: b.estimate(env), Size: env.Size(), Deadline: env.Deadline}
	if r.Estimate == nil || env.Tell && !env.Keyed {
		r.Estimate = &b.shortReply
	}
	ticket, verdict := queue.Admit(b.budget, a.at, &r, a)
	switch verdict {
	case replies.Waits:
		b.stir()
		return true
	case replies.Dropped:
		return true
	case replies.Full:
		var ok bool
		if ticket, ok = b.budget.Reserve(&queue.Account, &b.shortReply); !ok {
			return false
		}
		a.refused = &tooMuchWaits
	}
	a.ticket = ticket
	if b.next[a.core].len() < maxKeptInputs {
		a.input = input
	}
	b.enter(a, ready)
	return true
}

// estimate returns the size estimate of replies to a kind of command, nil if the kind is not known.
func (b *inbox) estimate(env *sharding.Envelope) *replies.SizeEstimate {
	last := &b.lastEstimate
	if last.command != env.Command || last.typ != env.Entity.Type {
		last.typ, last.command, last.estimate = env.Entity.Type, env.Command, b.estimates[env.Entity.Type][env.Command]
	}
	return last.estimate
}

// enter adds a command to the batch of its core.
func (b *inbox) enter(a *arrival, ready *cores) {
	b.next[a.core].arrivals = append(b.next[a.core].arrivals, *a)
	ready.add(a.core)
}

// advance lets the waiting commands enter for whose replies there is room now.
func (b *inbox) advance(ready *cores) {
	if b.budget.Waiting() > 0 {
		for to, queue := range b.queues { // order-free: the budget divides the room by how much each queue uses
			if queue.Len() > 0 {
				b.advanceOne(to, queue, ready)
			}
		}
	}
	if b.blocked > 0 {
		b.room.Broadcast()
	}
}

func (b *inbox) advanceOne(to Sink, queue *replies.Queue[arrival], ready *cores) {
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
		b.enter(&a, ready)
	}
}

// waits reports whether something waits for room.
func (b *inbox) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blocked > 0 || b.budget.Waiting() > 0
}

// refuseLate refuses the commands that have waited for too long.
func (b *inbox) refuseLate(queue *replies.Queue[arrival], now time.Time, ready *cores) {
	for _, l := range queue.Late(b.budget, now, &b.shortReply) {
		a := l.Command
		a.refused, a.ticket = &waitedTooLong, l.Ticket
		b.enter(&a, ready)
	}
}

// grow makes room for a reply that is larger than expected.
func (b *inbox) grow(t *replies.Ticket, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.budget.Grow(t, size)
}

// markAnswered records that commands were answered, and that their sink has the answers. It
// returns the cores that have new inputs, because there is room for more replies.
func (b *inbox) markAnswered(to Sink, list []ended) (ready cores) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.queues[to]; queue != nil {
		b.budget.SetUnsent(&queue.Account, to.Unsent())
	}
	for i := range list {
		b.budget.Answered(list[i].ticket, list[i].size)
	}
	b.advance(&ready)
	return ready
}

// refresh finds out how much the sinks have passed on meanwhile, and refuses the commands
// that have waited for too long. It returns the cores that have new inputs.
func (b *inbox) refresh() (ready cores) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for to, queue := range b.queues { // order-free: each for itself
		b.budget.SetUnsent(&queue.Account, to.Unsent())
		if queue.Len() > 0 && !to.Ended() {
			b.refuseLate(queue, now, &ready)
		}
	}
	b.advance(&ready)
	return ready
}

// forget drops the queue of a sink that will bring no more commands.
func (b *inbox) forget(to Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.queues[to]; queue != nil {
		queue.Drop(b.budget)
		delete(b.queues, to)
	}
}

// take moves the gathered inputs of a core into the batch got, and keeps got's empty slices
// for the next inputs.
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
	return b.ended || b.next[core].len() == 0
}

// end releases all goroutines that wait. Nothing is taken any more.
func (b *inbox) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.room.Broadcast()
}
