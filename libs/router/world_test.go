package router

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// world is a small cluster around one router, in virtual time: a coordinator
// that moves shards, regions with a fenced journal, links that break. Faults
// and delays are drawn from the seed.
type world struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	calm  bool // no faults any more
	newer bool // clients use the command that only some regions have
	start time.Time
	now   time.Duration
	queue eventQueue
	seq   int
	trace uint64

	m       *Machine
	inbox   []Input
	ticked  time.Duration
	wanted  map[sharding.NodeID]bool
	links   map[sharding.NodeID]*fakeLink
	number  uint64
	failing map[sharding.ShardID]int // SendFailed that are not stepped yet
	sent    map[Attempt]SendCommand
	refused map[sharding.ShardID]sharding.Epoch

	regions []*fakeRegion
	changes []sharding.Row // the table: version 1.n is after n changes
	truth   map[sharding.ShardID]sharding.Row
	fence   map[sharding.ShardID]sharding.Epoch
	applied map[sharding.CommandID]int
	log     map[sharding.Entity][]RequestID // effects, in order

	calls map[RequestID]*call
	last  RequestID

	deferred int // steps with commands that wait for a version with them

	// unreported are the attempts whose refusal by a region has not reached the router
	// yet; overtaken are the commands that were sent again meanwhile: later ones may
	// have run before them.
	newest     map[sharding.CommandID]Attempt
	unreported map[Attempt]bool
	overtaken  map[RequestID]bool
}

// call is the client's view of its command.
type call struct {
	env      sharding.Envelope
	canceled bool
	reply    *sharding.Reply
}

type event struct {
	at  time.Duration
	seq int
	run func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

const ms = time.Millisecond

func newWorld(t *testing.T, seed uint64) *world {
	cfg := DefaultConfig()
	cfg.MaxWaiting, cfg.MaxTotal = 40, 100
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), start: time.Unix(1_000_000, 0), m: New(cfg),
		wanted: map[sharding.NodeID]bool{}, links: map[sharding.NodeID]*fakeLink{},
		failing: map[sharding.ShardID]int{}, sent: map[Attempt]SendCommand{}, refused: map[sharding.ShardID]sharding.Epoch{},
		truth: map[sharding.ShardID]sharding.Row{}, fence: map[sharding.ShardID]sharding.Epoch{},
		applied: map[sharding.CommandID]int{}, log: map[sharding.Entity][]RequestID{}, calls: map[RequestID]*call{},
		newest: map[sharding.CommandID]Attempt{}, unreported: map[Attempt]bool{}, overtaken: map[RequestID]bool{},
	}
	for _, addr := range []string{"r1", "r2", "r3"} {
		w.regions = append(w.regions, &fakeRegion{w: w, old: addr != "r1", id: node(addr), up: true, shards: map[sharding.ShardID]*held{}})
	}
	w.inbox = append(w.inbox, Coordinators{Addrs: []string{"c"}})
	w.after(0, w.router)
	w.newer = true
	w.after(0, w.client)
	w.after(100*ms, w.fault)
	return w
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %v: %s", w.seed, w.now, fmt.Sprintf(format, args...))
}

func (w *world) chance(p float64) bool { return !w.calm && w.rng.Float64() < p }

// delay is short, with a heavy tail.
func (w *world) delay() time.Duration {
	d := time.Duration(w.rng.IntN(5)+1) * ms
	if w.chance(0.05) {
		d += time.Duration(w.rng.IntN(400)) * ms
	}
	return d
}

func (w *world) after(d time.Duration, run func()) {
	w.seq++
	heap.Push(&w.queue, event{at: w.now + d, seq: w.seq, run: run})
}

func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.run()
	}
	w.now = until
}

// router is the driver: it steps its inbox as a batch, then performs.
func (w *world) router() {
	next := time.Duration(w.rng.IntN(5)+1) * ms
	if w.chance(0.002) {
		next += time.Duration(w.rng.IntN(800)) * ms // a pause
	}
	w.after(next, w.router)
	if w.now-w.ticked >= 20*ms && !w.start.Add(w.now).Before(w.m.Due()) {
		w.ticked = w.now
		w.inbox = append(w.inbox, Tick{})
	}
	w.drain()
}

func (w *world) drain() {
	batch := w.inbox
	w.inbox = nil
	var out []Output
	for _, in := range batch {
		out = w.step(in, out)
	}
	for _, o := range out {
		w.perform(o)
	}
}

func (w *world) step(in Input, out []Output) []Output {
	now := w.start.Add(w.now)
	switch in := in.(type) {
	case NotMine:
		if s := w.sent[in.Attempt]; w.m.attempts[in.Attempt] != nil {
			w.refused[s.Shard] = max(w.refused[s.Shard], s.Epoch)
		}
	case Answer:
		delete(w.unreported, in.Attempt)
	case SendFailed:
		w.failing[w.sent[in.Attempt].Shard]--
	}
	var twin *Machine
	if w.rng.IntN(100) == 0 {
		twin = w.m.Clone()
	}
	at := len(out)
	out = w.m.Step(now, in, out)
	if err := w.m.Check(); err != nil {
		w.fatal("after %T%+v: %v", in, in, err)
	}
	if twin != nil {
		twins := twin.Step(now, in, nil)
		if len(twins)+len(out[at:]) > 0 && !reflect.DeepEqual(twins, out[at:]) {
			w.fatal("a clone acts differently after %T", in)
		}
		if string(twin.AppendState(now, nil)) != string(w.m.AppendState(now, nil)) {
			w.fatal("a clone differs after %T", in)
		}
	}
	if w.m.Stats().Deferred > 0 {
		w.deferred++
	}
	for _, o := range out[at:] {
		w.observe(o)
	}
	return out
}

// observe checks an output of the core, whether it can be performed or not.
func (w *world) observe(o Output) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %s", w.trace, w.now, describe(o))
	w.trace = h.Sum64()
	switch o := o.(type) {
	case SendCommand:
		if w.unreported[w.newest[o.Env.ID]] {
			w.overtaken[w.request(o.Env.ID)] = true
		}
		w.sent[o.Attempt], w.newest[o.Env.ID] = o, o.Attempt
		if o.Epoch <= w.refused[o.Shard] {
			w.fatal("request %s sent at %s, refused was %s", o.Env.ID, o.Epoch, w.refused[o.Shard])
		}
		if !w.wanted[o.Region] {
			w.fatal("sent to %s without Connect", o.Region)
		}
	case Connect:
		w.wanted[o.Region] = true
	case Disconnect:
		delete(w.wanted, o.Region)
	case Finish:
		c := w.calls[o.Request]
		if c == nil || c.canceled || c.reply != nil {
			w.fatal("request %d finished once too often: %+v", o.Request, o)
		}
		c.reply = &o.Reply
	}
}

func (w *world) perform(o Output) {
	switch o := o.(type) {
	case SendCommand:
		l := w.links[o.Region]
		if l == nil || !l.routerOpen || l.number != o.Link || w.failing[o.Shard] > 0 || w.chance(0.01) {
			w.failing[o.Shard]++
			w.inbox = append(w.inbox, SendFailed{Attempt: o.Attempt})
			return
		}
		l.toRegion(o)
	case Connect:
		w.dial(o.Region)
	case Disconnect:
		if l := w.links[o.Region]; l != nil {
			l.routerOpen = false
			delete(w.links, o.Region)
			w.after(w.delay(), func() { l.regionOpen = false })
		}
	case Send:
		switch m := o.Msg.(type) {
		case control.WatchTable:
			w.watched(m.Version, w.now+time.Second)
		case control.GetShardHome:
			w.after(w.delay(), func() { w.home(m) })
		}
	}
}

// watched answers a poll as soon as the table changes.
func (w *world) watched(v sharding.Version, by time.Duration) {
	n := uint64(len(w.changes))
	switch {
	case w.chance(0.02):
		w.inbox = append(w.inbox, watched("c", nil))
	case w.chance(0.02):
		w.inbox = append(w.inbox, watched("c", control.NotActive{Term: 1}))
	case v.Term == 1 && v.N == n && w.now < by:
		w.after(10*ms, func() { w.watched(v, by) })
	default:
		d := sharding.TableDelta{Version: sharding.Version{Term: 1, N: n}, Types: testTypes()}
		if v.Term == 1 {
			d.Rows = slices.Clone(w.changes[v.N:])
		} else {
			d.Full, d.Rows = true, slices.Clone(w.changes)
		}
		w.after(w.delay(), func() { w.inbox = append(w.inbox, changed("c", d)) })
	}
}

// client submits a few commands at once, again and again.
func (w *world) client() {
	if w.calm {
		return
	}
	w.after(time.Duration(w.rng.IntN(60))*ms, w.client)
	e := w.entity()
	for range w.rng.IntN(5) + 1 {
		if w.rng.IntN(3) == 0 {
			e = w.entity()
		}
		w.submit(e, w.rng.IntN(3))
	}
	if w.rng.IntN(10) == 0 {
		w.drain() // so that no answer crosses the cancellation
		if c := w.calls[w.last-RequestID(w.rng.IntN(3))]; c != nil && c.reply == nil {
			c.canceled = true
			w.inbox = append(w.inbox, Cancel{Request: w.request(c.env.ID)})
			w.drain()
		}
	}
}

func (w *world) entity() sharding.Entity {
	return sharding.Entity{Type: []sharding.EntityType{"T", "W"}[w.rng.IntN(2)], ID: sharding.EntityID([]string{"a", "b", "c"}[w.rng.IntN(3)])}
}

func (w *world) submit(e sharding.Entity, kind int) {
	w.last++
	env := sharding.Envelope{Entity: e, Command: "Do", ID: sharding.CommandID(fmt.Sprint(w.last)), Keyed: kind == 0}
	switch {
	case kind == 1 && w.rng.IntN(2) == 0:
		env.Command = "Get"
	case w.newer && w.rng.IntN(3) == 0:
		env.Command = "New"
	}
	if w.rng.IntN(2) == 0 {
		env.Deadline = w.start.Add(w.now + time.Duration(w.rng.IntN(2000))*ms)
	}
	w.calls[w.last] = &call{env: env}
	w.inbox = append(w.inbox, Submit{Request: w.last, Env: &env})
}
