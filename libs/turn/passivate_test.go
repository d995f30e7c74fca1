package turn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
)

// passivationStrategies are all kinds, with limits far below the number of entities.
func passivationStrategies() []passivation.Strategy {
	return []passivation.Strategy{
		passivation.Idle(300 * time.Millisecond),
		passivation.LRU(6),
		passivation.SegmentedLRU(8, 0.2, 0.8).OrIdle(200 * time.Millisecond),
		passivation.MRU(6),
		passivation.LFU(6).OrIdle(time.Second),
		passivation.LFUDynamicAging(6),
		passivation.Composite(12),
		passivation.LRU(1), // less than the number of shards
	}
}

// TestPassivationLosesNothing gives random commands to many more entities than may be
// active, under a driver that answers late, in any order that its duties allow, and sometimes
// does not know the outcome of an append. Every command is applied once and answered. When
// all is done, no more entities are alive than the limit allows.
func TestPassivationLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, s := range passivationStrategies() {
		t.Run(s.String(), func(t *testing.T) {
			if problems := playLate(s, 3000, rand.New(rand.NewPCG(seed, uint64(i)))); len(problems) > 0 {
				t.Errorf("%d problems, the first ones: %q", len(problems), problems[:min(5, len(problems))])
			}
		})
	}
	t.Run("changing", func(t *testing.T) {
		d := newLateDriver(passivation.Idle(time.Second), rand.New(rand.NewPCG(seed, 99)))
		d.changes = true
		if d.play(5000); len(d.problems) > 0 {
			t.Errorf("%d problems, the first ones: %q", len(d.problems), d.problems[:min(5, len(d.problems))])
		}
		d.setPassivation(passivation.LFU(4))
		for !d.quiet() {
			d.perform()
		}
		if n := d.m.Stats().Entities; n > 4 {
			t.Errorf("%d entities are alive, the limit is 4", n)
		}
	})
}

// TestStrategyChanges: with another strategy the idle time of an entity continues, and the
// entities that have been idle for longest go first.
func TestStrategyChanges(t *testing.T) {
	d := newLateDriver(passivation.Idle(time.Minute), rand.New(rand.NewPCG(1, 1)))
	d.calm = true
	for i := range 5 {
		d.now = d.now.Add(time.Second)
		d.deliver(sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(sameShard(i))}, ID: sharding.CommandID(fmt.Sprint(i)), Command: "Get"})
		for !d.quiet() {
			d.perform()
		}
	}
	alive := func() (ids []string) {
		for i := range 5 {
			if id := sameShard(i); strings.Contains(string(d.m.AppendState(d.now, nil)), "entity T/"+id+" ") {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for _, step := range []struct {
		after    time.Duration
		strategy passivation.Strategy
		alive    int
	}{
		{0, passivation.Idle(time.Minute), 5},
		{0, passivation.LRU(4 * lateShards), 4},
		{0, passivation.LRU(3 * lateShards).OrIdle(time.Minute), 3},
		{0, passivation.LFU(2 * lateShards).OrIdle(time.Minute), 2},
		{58 * time.Second, passivation.Idle(time.Minute), 2},
		{time.Second, passivation.Idle(time.Minute), 1},
		{time.Second / 2, passivation.None(), 1},
		{time.Hour, passivation.Idle(time.Minute), 1},
		{59 * time.Second, passivation.Strategy{Limit: -1}, 1}, // not valid: ignored
		{time.Second, passivation.Idle(time.Minute), 0},
	} {
		d.now = d.now.Add(step.after)
		d.setPassivation(step.strategy)
		for d.step(turn.Tick{}); !d.quiet(); {
			d.perform()
		}
		var want []string
		for i := 5 - step.alive; i < 5; i++ {
			want = append(want, sameShard(i))
		}
		if got := alive(); !slices.Equal(got, want) {
			t.Fatalf("after %s with %s %v are alive, want %v", step.after, step.strategy, got, want)
		}
	}
	if len(d.problems) > 0 {
		t.Error(d.problems)
	}
}

// sameShard returns ids that are all in the first shard.
func sameShard(i int) string {
	for n := 0; ; n++ {
		id := fmt.Sprint("e", n)
		if shardingtest.ShardOf(sharding.EntityID(id), lateShards) == 0 {
			if i--; i < 0 {
				return id
			}
		}
	}
}

// playLate returns what is wrong at the end.
func playLate(s passivation.Strategy, commands int, rnd *rand.Rand) []string {
	d := newLateDriver(s, rnd)
	if d.play(commands); len(d.problems) > 0 {
		return d.problems
	}
	if n := d.m.Stats().Entities; s.Limit > 0 && n > max(s.Limit, lateShards) {
		d.problem("%d entities are alive, the limit is %d", n, s.Limit)
	}
	if p := d.m.Stats().Passivations; s.Limit > 0 && p.Limit == 0 || s.Limit == 0 && p.Idle == 0 {
		d.problem("nothing was passivated: %s", p)
	}
	return d.problems
}

const (
	lateShards   = 3
	lateEntities = 40
)

// lateDriver performs outputs late. Its journal is a list of command ids per entity, "" for
// the record of a settlement.
type lateDriver struct {
	problems []string
	rnd      *rand.Rand
	m        *turn.Machine
	now      time.Time
	queues   []jobQueue
	log      []turn.Output // appends and fence reads, in order
	stored   map[sharding.Entity][]sharding.CommandID
	alive    map[turn.Incarnation]bool
	epochs   [lateShards]uint32
	pending  map[turn.RequestID]sharding.Envelope // not answered
	again    []sharding.Envelope                  // answered by NotMine
	last     turn.RequestID
	calm     bool // no entity sets timers any more
	changes  bool // the strategy changes
}

// jobQueue has the jobs of one instance.
type jobQueue struct {
	inc  turn.Incarnation
	jobs []turn.Output
}

func newLateDriver(s passivation.Strategy, rnd *rand.Rand) *lateDriver {
	cfg := turn.DefaultConfig(turn.Type{Desc: sharding.TypeDesc{Type: "T", Shards: lateShards, Commands: []sharding.CommandDesc{
		{Name: "Add"}, {Name: "Get", ReadOnly: true},
	}}, Passivation: s})
	cfg.MailboxShare = 1
	d := &lateDriver{
		rnd: rnd, m: turn.New(cfg), now: time.Unix(1000, 0), stored: map[sharding.Entity][]sharding.CommandID{},
		alive: map[turn.Incarnation]bool{}, pending: map[turn.RequestID]sharding.Envelope{},
	}
	for i := range uint32(lateShards) {
		d.open(i)
	}
	return d
}

func (d *lateDriver) problem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

func (d *lateDriver) open(i uint32) {
	d.epochs[i]++
	d.step(turn.Open{Shard: sharding.ShardID{Type: "T", Index: i}, Epoch: sharding.MakeEpoch(1, d.epochs[i])})
}

// play delivers commands, waits until all are answered, and checks the stored data.
func (d *lateDriver) play(commands int) {
	sent := 0
	for steps := 0; sent < commands || len(d.pending)+len(d.again) > 0 || !d.quiet(); steps++ {
		if steps > 100*commands || len(d.problems) > 0 {
			d.problem("%d commands are not answered, %d are to be sent again", len(d.pending), len(d.again))
			return
		}
		d.now = d.now.Add(time.Duration(d.rnd.IntN(3000)) * time.Microsecond)
		switch n := d.rnd.IntN(100); {
		case n < 25 && len(d.again) > 0:
			env := d.again[0]
			d.again = d.again[1:]
			d.deliver(env)
		case n < 25 && sent < commands:
			sent++
			d.deliver(sharding.Envelope{
				Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint(min(d.rnd.IntN(lateEntities), d.rnd.IntN(lateEntities))))},
				ID:     sharding.CommandID(fmt.Sprint("c", sent)), Command: []string{"Add", "Add", "Get"}[d.rnd.IntN(3)], Keyed: true,
			})
		case n == 25 && sent < commands:
			d.step(turn.Drain{Shard: sharding.ShardID{Type: "T", Index: uint32(d.rnd.IntN(lateShards))}})
		case n == 26 && d.changes:
			list := append(passivationStrategies(), passivation.None(), passivation.LRU(20), passivation.Idle(time.Millisecond))
			d.setPassivation(list[d.rnd.IntN(len(list))])
		case n < 30:
			d.step(turn.Tick{})
		default:
			d.perform()
		}
		if err := d.m.Check(); err != nil {
			d.problem("%v", err)
			return
		}
		if steps%500 == 0 {
			d.m = d.m.Clone()
		}
	}
	d.calm = true
	for range 3 { // timers fire
		d.now = d.now.Add(time.Second / 10)
		for d.step(turn.Tick{}); !d.quiet(); {
			d.perform()
		}
	}
	seen := map[sharding.CommandID]int{}
	for _, ids := range d.stored { // order-free: counts
		for _, id := range ids {
			seen[id]++
		}
	}
	for id, n := range seen { // order-free: any is an error
		if id != "" && n != 1 {
			d.problem("%s is stored %d times", id, n)
		}
	}
}

func (d *lateDriver) setPassivation(s passivation.Strategy) {
	d.step(turn.SetPassivation{Type: "T", Strategy: s})
	if err := d.m.Check(); err != nil {
		d.problem("after %s: %v", s, err)
	}
}

func (d *lateDriver) quiet() bool {
	return len(d.log) == 0 && !slices.ContainsFunc(d.queues, func(q jobQueue) bool { return len(q.jobs) > 0 })
}

func (d *lateDriver) deliver(env sharding.Envelope) {
	d.last++
	d.pending[d.last] = env
	d.step(turn.Deliver{Request: d.last, Env: &env, Shard: sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(env.Entity.ID, lateShards)}})
}

func (d *lateDriver) step(in turn.Input) {
	out := d.m.Step(d.now, in, nil)
	events := slices.Clone(d.m.ShardEvents())
	for _, o := range out {
		switch o := o.(type) {
		case *turn.Answer:
			d.answered(o)
		case turn.Append, turn.ReadFence:
			d.log = append(d.log, o)
		case turn.Load:
			d.queue(o.Incarnation, o)
		case *turn.Run:
			run := *o
			env := *o.Env
			run.Env = &env
			d.queue(o.Incarnation, &run)
		case turn.Stop:
			d.queue(o.Incarnation, o)
		case turn.Drop:
			delete(d.alive, o.Incarnation)
		case turn.Lookup:
			d.queue(o.Incarnation, o)
		}
	}
	for _, e := range events {
		switch e := e.(type) {
		case turn.NotMine:
			d.again = append(d.again, d.pending[e.Request])
			delete(d.pending, e.Request)
		case turn.Drained:
			d.open(e.Shard.Index)
		}
	}
}

func (d *lateDriver) queue(inc turn.Incarnation, o turn.Output) {
	i := slices.IndexFunc(d.queues, func(q jobQueue) bool { return q.inc == inc })
	if i < 0 {
		d.queues = append(d.queues, jobQueue{inc, []turn.Output{o}})
		return
	}
	d.queues[i].jobs = append(d.queues[i].jobs, o)
}

func (d *lateDriver) answered(a *turn.Answer) {
	env := d.pending[a.Request]
	delete(d.pending, a.Request)
	stored := slices.Contains(d.stored[env.Entity], env.ID)
	if a.Reply.Outcome != sharding.Executed {
		d.problem("%s: %s %s %s", env.ID, a.Reply.Outcome, a.Reply.Code, a.Reply.Message)
	} else if env.Command == "Add" && !stored {
		d.problem("%s was answered, and is not stored", env.ID)
	}
}

// perform performs the oldest output for the journal, or the oldest one of some instance.
func (d *lateDriver) perform() {
	if len(d.log) > 0 && d.rnd.IntN(2) == 0 {
		o := d.log[0]
		d.log = d.log[1:]
		if a, ok := o.(turn.Append); ok {
			d.append(a)
		} else if f, ok := o.(turn.ReadFence); ok {
			d.step(turn.FenceRead{Shard: f.Shard, Epoch: f.Epoch, Number: f.Number, Verdict: sharding.Durable})
		}
		return
	}
	if len(d.queues) == 0 {
		return
	}
	i := d.rnd.IntN(len(d.queues))
	q := &d.queues[i]
	o := q.jobs[0]
	if q.jobs = q.jobs[1:]; len(q.jobs) == 0 {
		d.queues = slices.Delete(d.queues, i, i+1)
	}
	switch o := o.(type) {
	case turn.Load:
		in := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation, LastSeq: uint64(len(d.stored[o.Entity])), Stored: map[sharding.CommandID]sharding.Stored{}}
		for _, id := range o.Lookup {
			if slices.Contains(d.stored[o.Entity], id) {
				in.Stored[id] = storedReply()
			}
		}
		d.alive[o.Incarnation] = !o.LookupOnly
		if !d.calm && d.rnd.IntN(10) == 0 { // the start hook sets a timer
			in.Timers = []turn.Timer{{Name: "t", After: 100 * time.Millisecond, Command: "Get"}}
		}
		d.step(in)
	case turn.Lookup:
		in := turn.LookedUp{Incarnation: o.Incarnation, ID: o.ID, Found: slices.Contains(d.stored[o.Entity], o.ID), Stored: storedReply()}
		d.step(in)
	case *turn.Run:
		done := turn.TurnDone{Incarnation: o.Incarnation, Request: o.Request, Reply: sharding.Reply{Outcome: sharding.Executed}}
		if o.Env.Command == "Add" {
			done.Events = []sharding.Event{{Name: "Added"}}
		}
		if !d.calm && d.rnd.IntN(10) == 0 {
			done.Timers = []turn.Timer{{Name: "t", After: time.Duration(d.rnd.IntN(2)) * 50 * time.Millisecond, Command: "Get"}}
		}
		done.Passivate = d.rnd.IntN(40) == 0
		d.step(done)
	case turn.Stop:
		if !d.alive[o.Incarnation] {
			d.problem("%s is stopped, and is not alive", o.Incarnation)
		}
		delete(d.alive, o.Incarnation)
		d.step(turn.Stopped{Incarnation: o.Incarnation})
	}
}

func storedReply() sharding.Stored {
	return sharding.Stored{Hash: sharding.CommandHash("", "Add", nil), Reply: sharding.Reply{Outcome: sharding.Executed}}
}

// append stores the records if they are the next ones, and sometimes does not say so.
func (d *lateDriver) append(a turn.Append) {
	verdict, list := sharding.Durable, d.stored[a.Append.Entity]
	seq := a.Append.Records[0].Seq
	unknown := d.rnd.IntN(60) == 0
	switch {
	case seq != uint64(len(list))+1:
		verdict = sharding.RefusedSeq
	case !unknown || d.rnd.IntN(2) == 0:
		for _, r := range a.Append.Records {
			list = append(list, r.Command)
		}
		d.stored[a.Append.Entity] = list
	}
	if unknown {
		verdict = sharding.UnknownOutcome
	}
	d.step(turn.Appended{Incarnation: a.Incarnation, Seq: seq, Verdict: verdict})
}
