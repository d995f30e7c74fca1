package turn_test

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
)

// callWorld has several machines whose entities ask each other, in virtual time. Their clocks
// differ. Probes get lost, and come late or twice.
type callWorld struct {
	r        *rand.Rand
	machines []*callMachine
	now      time.Duration
	events   callEvents
	order    int
	last     turn.RequestID
	requests map[turn.RequestID]func(sharding.Reply)
	at       map[sharding.Entity]*callEntity
	loss     float64 // of probes
	// handedOff is a shard that is handed off. As routers do, the world sends commands there only if
	// its entities are in their chains, and only until one was refused.
	handedOff sharding.ShardID
	refused   bool
	bad       []string

	deadlocks, answered, unsettled int
	replies                        []sharding.Reply

	waiting           map[callWait]*callTurn
	found             bool // the last step has found a circle
	steps, checkEvery int
}

// callWait identifies a turn that waits.
type callWait struct {
	m   *callMachine
	inc turn.Incarnation
}

type callMachine struct {
	*turn.Machine
	index int
	skew  time.Duration
}

// callEntity is the world's knowledge of an entity, without asking its machine.
type callEntity struct {
	running *callTurn
	present map[sharding.CommandID]bool // commands that are delivered and whose turn is not over
}

// callTurn is a running turn.
type callTurn struct {
	on    *callMachine
	run   *turn.Run
	inc   turn.Incarnation
	req   turn.RequestID
	id    sharding.CommandID
	steps []string
	asked uint64
	// what it waits for, nil: nothing
	waits *sharding.Envelope
	since time.Time
}

type callEvent struct {
	at    time.Duration
	order int
	do    func()
}

type callEvents []callEvent

func (e callEvents) Len() int { return len(e) }
func (e callEvents) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].order, e[j].order)) < 0
}
func (e callEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *callEvents) Push(x any)   { *e = append(*e, x.(callEvent)) }
func (e *callEvents) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

const callShards = 6

// maxCallSteps is more than any run takes.
const maxCallSteps = 300_000

func newCallWorld(seed uint64, machines int) *callWorld {
	w := &callWorld{r: rand.New(rand.NewPCG(seed, 7)), requests: map[turn.RequestID]func(sharding.Reply){}, at: map[sharding.Entity]*callEntity{}, waiting: map[callWait]*callTurn{}, checkEvery: 1}
	cfg := turn.DefaultConfig(turn.Type{Desc: sharding.TypeDesc{Type: "T", Shards: callShards, Commands: []sharding.CommandDesc{{Name: "Do"}, {Name: "Look", ReadOnly: true}}}})
	cfg.AskTimeout, cfg.DrainTimeout = 10*time.Minute, 10*time.Minute
	for i := range machines {
		w.machines = append(w.machines, &callMachine{Machine: turn.New(cfg), index: i, skew: time.Duration(w.r.Int64N(int64(10 * time.Second)))})
	}
	for s := range uint32(callShards) {
		m := w.machines[int(s)%machines]
		w.step(m, turn.Open{Shard: sharding.ShardID{Type: "T", Index: s}, Epoch: sharding.MakeEpoch(1, s+1)})
	}
	for i := range w.machines {
		w.tick(i)
	}
	return w
}

func (w *callWorld) tick(i int) {
	w.after(20*time.Millisecond, func() { w.step(w.machines[i], turn.Tick{}); w.tick(i) })
}

func (w *callWorld) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, callEvent{w.now + d, w.order, do})
}

// soon is after a short time at random.
func (w *callWorld) soon(do func()) {
	w.after(time.Duration(w.r.Int64N(int64(5*time.Millisecond))), do)
}

func (w *callWorld) run(for_ time.Duration, until func() bool) bool {
	end := w.now + for_
	for len(w.events) > 0 && w.events[0].at <= end {
		if until() {
			return true
		}
		e := heap.Pop(&w.events).(callEvent)
		w.now = e.at
		e.do()
	}
	return until()
}

func (w *callWorld) entity(id sharding.Entity) *callEntity {
	e := w.at[id]
	if e == nil {
		e = &callEntity{present: map[sharding.CommandID]bool{}}
		w.at[id] = e
	}
	return e
}

func name(id string) sharding.Entity { return sharding.Entity{Type: "T", ID: sharding.EntityID(id)} }

func shardOfName(id sharding.EntityID) sharding.ShardID {
	return sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(id, callShards)}
}

// deliver brings a command to the machine of its entity.
func (w *callWorld) deliver(env *sharding.Envelope, done func(sharding.Reply)) {
	w.last++
	req, shard := w.last, shardOfName(env.Entity.ID)
	if shard == w.handedOff && (w.refused || !slices.ContainsFunc(env.Chain, func(e sharding.Entity) bool { return shardOfName(e.ID) == shard })) {
		w.soon(func() { done(sharding.Reject(sharding.Unavailable, "not sent")) })
		return
	}
	w.requests[req] = func(r sharding.Reply) {
		delete(w.entity(env.Entity).present, env.ID)
		done(r)
	}
	if env.Command != sharding.ProbeCommand {
		w.entity(env.Entity).present[env.ID] = true
	}
	w.step(w.machines[int(shard.Index)%len(w.machines)], turn.Deliver{Request: req, Shard: shard, Env: env})
}

// send lets a client send a command. The payload of a command has what its turn asks: names
// that are separated by commas, each with what it asks itself in parentheses.
func (w *callWorld) send(id, command, key, payload string) {
	w.unsettled++
	env := &sharding.Envelope{Entity: name(id), Command: command, ID: sharding.CommandID(key), Keyed: command == "Do", Payload: []byte(payload)}
	w.soon(func() {
		w.deliver(env, func(r sharding.Reply) {
			w.unsettled--
			w.answered++
			w.replies = append(w.replies, r)
		})
	})
}

func (w *callWorld) step(m *callMachine, in turn.Input) {
	before := m.Stats().Deadlocks
	out := m.Step(time.Unix(1000, 0).Add(w.now+m.skew), in, nil)
	w.found = m.Stats().Deadlocks > before
	if w.steps++; w.steps%w.checkEvery != 0 {
	} else if err := m.Check(); err != nil {
		w.bad = append(w.bad, err.Error())
	}
	for _, e := range m.ShardEvents() {
		if e, ok := e.(turn.NotMine); ok {
			w.refused = w.refused || e.Shard == w.handedOff
			w.answer(e.Request, sharding.Reject(sharding.Unavailable, "not mine"))
		}
	}
	for _, o := range out {
		w.perform(m, o)
	}
}

func (w *callWorld) answer(req turn.RequestID, r sharding.Reply) {
	if done := w.requests[req]; done != nil {
		delete(w.requests, req)
		w.soon(func() { done(r) })
	}
}

func (w *callWorld) perform(m *callMachine, o turn.Output) {
	back := func(in turn.Input) { w.soon(func() { w.step(m, in) }) }
	switch o := o.(type) {
	case turn.Load:
		back(turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation})
	case turn.Append:
		back(turn.Appended{Incarnation: o.Incarnation, Seq: o.Append.Records[0].Seq, Verdict: sharding.Durable})
	case turn.ReadFence:
		back(turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: sharding.Durable})
	case turn.Lookup:
		back(turn.LookedUp{Incarnation: o.Incarnation, ID: o.ID})
	case turn.Stop:
		back(turn.Stopped{Incarnation: o.Incarnation})
	case *turn.Run:
		t := &callTurn{on: m, inc: o.Incarnation, req: o.Request, id: o.Env.ID, run: o, steps: parts(string(o.Env.Payload))}
		w.entity(o.Entity).running = t
		w.entity(o.Entity).present[t.id] = true // again, if it has run before
		w.soon(func() { w.goOn(t) })
	case turn.SendAsk:
		t := w.turnOf(o.Env.Chain[len(o.Env.Chain)-1])
		env := o.Env
		t.waits, t.since = &env, time.Unix(1000, 0).Add(w.now+m.skew)
		w.soon(func() {
			w.deliver(&env, func(r sharding.Reply) {
				w.step(m, turn.AskAnswered{Incarnation: o.Incarnation, Number: o.Number, Reply: r})
			})
		})
	case turn.SendProbe:
		for range 1 + w.r.IntN(2) {
			if w.r.Float64() >= w.loss {
				w.after(time.Duration(w.r.ExpFloat64()*float64(200*time.Millisecond)), func() { w.deliver(&o.Env, func(sharding.Reply) {}) })
			}
		}
	case turn.AskDone:
		w.askDone(m, o)
	case *turn.Answer:
		w.answer(o.Request, o.Reply)
	}
}

func (w *callWorld) turnOf(id sharding.Entity) *callTurn { return w.entity(id).running }

// goOn lets a turn do its next step.
func (w *callWorld) goOn(t *callTurn) {
	if len(t.steps) == 0 {
		w.end(t, sharding.Reply{Outcome: sharding.Executed})
		return
	}
	target, inner, _ := strings.Cut(t.steps[0], "(")
	inner = strings.TrimSuffix(inner, ")")
	t.steps = t.steps[1:]
	t.asked++
	w.waiting[callWait{t.on, t.inc}] = t
	w.step(t.on, turn.Ask{
		Incarnation: t.inc, Turn: t.run.Turn, Number: t.asked, Target: name(target), Command: t.run.Env.Command,
		ReadOnly: t.run.ReadOnly, Payload: []byte(inner),
	})
}

func (w *callWorld) end(t *callTurn, r sharding.Reply) {
	e := w.entity(t.run.Entity)
	e.running = nil
	delete(e.present, t.id)
	w.step(t.on, turn.TurnDone{Incarnation: t.inc, Request: t.req, Reply: r})
}

func (w *callWorld) askDone(m *callMachine, o turn.AskDone) {
	t := w.waiting[callWait{m, o.Incarnation}]
	if w.found {
		w.deadlocks++
		w.checkVictim(t)
	}
	delete(w.waiting, callWait{m, o.Incarnation})
	t.waits = nil
	w.soon(func() {
		if o.Reply.Outcome != sharding.Executed {
			w.end(t, sharding.Reject(o.Reply.Code, o.Reply.Message))
			return
		}
		w.goOn(t)
	})
}

// checkVictim checks that a turn that is said to wait in a circle does so, and is the
// youngest there.
func (w *callWorld) checkVictim(victim *callTurn) {
	at := victim
	for range len(w.at) + 1 {
		target := w.entity(at.waits.Entity)
		if !target.present[at.waits.ID] || target.running == nil || target.running.waits == nil {
			w.bad = append(w.bad, fmt.Sprintf("%s gives up, but %s does not wait in a circle", victim.run.Entity, at.waits.Entity))
			return
		}
		if at = target.running; at == victim {
			return
		}
		if at.since.After(victim.since) {
			w.bad = append(w.bad, fmt.Sprintf("%s gives up, but %s has begun to wait later", victim.run.Entity, at.run.Entity))
		}
	}
	w.bad = append(w.bad, fmt.Sprintf("%s gives up, but is not in the circle that it waits for", victim.run.Entity))
}

// parts divides a payload at the commas that are in no parentheses.
func parts(s string) (list []string) {
	depth, from := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			list, from = append(list, s[from:i]), i+1
		}
	}
	if s != "" {
		list = append(list, s[from:])
	}
	return list
}

// settle lets everything end in time.
func (w *callWorld) settle(for_ time.Duration) error {
	if !w.run(for_, func() bool { return w.unsettled == 0 || len(w.bad) > 0 || w.steps > maxCallSteps }) {
		return fmt.Errorf("after %v %d commands are not answered", for_, w.unsettled)
	}
	if w.steps > maxCallSteps {
		return fmt.Errorf("%d steps, and %d commands are not answered", w.steps, w.unsettled)
	}
	if len(w.bad) > 0 {
		return fmt.Errorf("%s", strings.Join(w.bad, "\n"))
	}
	return nil
}

func TestDeadlocks(t *testing.T) {
	if err := breakDeadlocks(); err != nil {
		t.Error(err)
	}
}

// breakDeadlocks returns an error unless circles are found, and only they.
func breakDeadlocks() error {
	for _, c := range []struct {
		name      string
		commands  [][2]string
		deadlocks int
	}{
		{"two", [][2]string{{"a", "b"}, {"b", "a"}}, 1},
		{"two, deeper", [][2]string{{"a", "c(b)"}, {"b", "d(a)"}}, 1},
		{"a ring of five", [][2]string{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "e"}, {"e", "a"}}, 1},
		{"a ring and what waits for it", [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"x", "a"}, {"y", "x"}, {"z", "b"}}, 1},
		{"no circle", [][2]string{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", ""}, {"x", "a,b,c,d"}}, 0},
	} {
		for seed := range uint64(20) {
			w := newCallWorld(seed, 1+int(seed%3))
			w.loss = 0.3
			for i, cmd := range c.commands {
				w.send(cmd[0], []string{"Do", "Look"}[seed%2], fmt.Sprint("k", i), cmd[1])
			}
			// All of them begin before any has asked.
			if err := w.settle(2 * time.Minute); err != nil {
				return fmt.Errorf("%s, seed %d: %w", c.name, seed, err)
			}
			if w.deadlocks > c.deadlocks {
				return fmt.Errorf("%s, seed %d: %d deadlocks, at most %d", c.name, seed, w.deadlocks, c.deadlocks)
			}
		}
	}
	return nil
}

// TestRandomCalls: whichever entities ask each other, every ask is answered, and only circles are broken.
func TestRandomCalls(t *testing.T) {
	if err := randomCalls(); err != nil {
		t.Error(err)
	}
}

func randomCalls() error {
	deadlocks := 0
	for seed := range uint64(60) {
		w := newCallWorld(seed, 1+int(seed%3))
		w.loss = w.r.Float64() / 2
		n := 3 + w.r.IntN(6)
		var plan func(depth int) string
		plan = func(depth int) string {
			var list []string
			for range w.r.IntN(3) {
				s := fmt.Sprint("e", w.r.IntN(n))
				if depth < 3 && w.r.IntN(3) == 0 {
					s += "(" + plan(depth+1) + ")"
				}
				list = append(list, s)
			}
			return strings.Join(list, ",")
		}
		for i := range 40 {
			w.run(time.Duration(w.r.Int64N(int64(20*time.Millisecond))), func() bool { return false })
			w.send(fmt.Sprint("e", w.r.IntN(n)), []string{"Do", "Look"}[w.r.IntN(2)], fmt.Sprint("k", i), plan(0))
		}
		if err := w.settle(5 * time.Minute); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		deadlocks += w.deadlocks
	}
	if deadlocks == 0 {
		return errors.New("no seed had a deadlock")
	}
	return nil
}

// TestAskIntoOwnDrainingShard: a turn waits for an entity that asks another one of the first
// one's shard, which is being handed off.
func TestAskIntoOwnDrainingShard(t *testing.T) {
	w := newCallWorld(1, 2)
	a := "a"
	var b, x string
	for i := 0; b == "" || x == ""; i++ {
		id := fmt.Sprint("n", i)
		switch of := shardOfName(sharding.EntityID(id)).Index; {
		case b == "" && of == shardOfName("a").Index:
			b = id
		case x == "" && of%2 != shardOfName("a").Index%2:
			x = id
		}
	}
	w.send(a, "Do", "k", x+"("+b+")")
	if !w.run(time.Second, func() bool { tn := w.turnOf(name(a)); return tn != nil && tn.waits != nil }) {
		t.Fatal("it does not ask")
	}
	shard := shardOfName("a")
	w.step(w.machines[int(shard.Index)%2], turn.Drain{Shard: shard})
	w.send(b, "Do", "other", "") // from outside: refused
	if err := w.settle(time.Second); err != nil {
		t.Fatal(err)
	}
	outcomes := []sharding.Outcome{w.replies[0].Outcome, w.replies[1].Outcome}
	slices.Sort(outcomes)
	if !slices.Equal(outcomes, []sharding.Outcome{sharding.Executed, sharding.NotApplied}) {
		t.Errorf("%+v", w.replies)
	}
}

// TestCircleInDrainingShard: a circle is found, too, while the shard of one of its entities is being
// handed off. The handoff could not end otherwise.
func TestCircleInDrainingShard(t *testing.T) {
	if err := circleInDrainingShard(); err != nil {
		t.Error(err)
	}
}

func circleInDrainingShard() error {
	w := newCallWorld(1, 2)
	w.send("a", "Do", "k1", "b")
	w.send("b", "Do", "k2", "a")
	if !w.run(time.Second, func() bool { return len(w.waiting) == 2 }) {
		return errors.New("they do not wait")
	}
	w.run(50*time.Millisecond, func() bool { return false }) // until what they ask has come
	shard := shardOfName("a")
	w.handedOff = shard
	w.step(w.machines[int(shard.Index)%2], turn.Drain{Shard: shard})
	idle := name("i") // of the same shard
	for n := 0; shardOfName(idle.ID) != shard; n++ {
		idle = name(fmt.Sprint("i", n))
	}
	late := &sharding.Envelope{Entity: idle, Command: sharding.ProbeCommand, ID: "late", Tell: true, Chain: []sharding.Entity{idle}}
	w.deliver(late, func(sharding.Reply) {})
	if err := w.settle(2 * time.Minute); err != nil {
		return err
	}
	if w.deadlocks != 1 {
		return fmt.Errorf("%d deadlocks", w.deadlocks)
	}
	return nil
}

// TestThousandsWait: thousands of turns wait for one entity, in whose way is a deadlock.
func TestThousandsWait(t *testing.T) {
	w := newCallWorld(1, 3)
	w.checkEvery = 1000
	for i := range 2500 {
		w.send(fmt.Sprint("x", i), "Look", fmt.Sprint("k", i), fmt.Sprint("hub", i%5))
	}
	w.send("hub0", "Do", "a", "hub1")
	w.send("hub1", "Do", "b", "hub0")
	if err := w.settle(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	ok := 0
	for _, r := range w.replies {
		if r.Outcome == sharding.Executed {
			ok++
		}
	}
	if ok < 2500 {
		t.Errorf("%d of %d succeeded, %d deadlocks", ok, len(w.replies), w.deadlocks)
	}
}
