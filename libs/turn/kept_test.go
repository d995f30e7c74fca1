package turn_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// owner runs entities of a volatile type that keeps its state: each counts its commands.
type owner struct {
	t      *testing.T
	m      *turn.Machine
	now    time.Time
	counts map[turn.Incarnation]int
	// drained holds the kept states of the last handoff.
	drained *turn.Drained
	ran     []string // entity and command
	slow    bool     // loads are not answered
	loads   []turn.Load
	hung    bool // turns do not end
}

func newOwner(t *testing.T, change func(*turn.Config)) *owner {
	cfg := turn.DefaultConfig(turn.Type{
		Desc: sharding.TypeDesc{Type: "V", Shards: 1, Volatile: true, Commands: []sharding.CommandDesc{
			{Name: "Add"}, {Name: "Later"}, {Name: "Often"}, {Name: "Tick"}, {Name: "Quit"},
		}},
		Passivation: passivation.Idle(time.Minute), KeepOnMoves: true,
	})
	if change != nil {
		change(&cfg)
	}
	return &owner{t: t, m: turn.New(cfg), now: time.Unix(1000, 0), counts: map[turn.Incarnation]int{}}
}

var shardV = sharding.ShardID{Type: "V"}

func (o *owner) step(in turn.Input) {
	o.t.Helper()
	out := o.m.Step(o.now, in, nil)
	for _, e := range o.m.ShardEvents() {
		if d, ok := e.(turn.Drained); ok {
			o.drained = &d
		}
	}
	for _, m := range []*turn.Machine{o.m, o.m.Clone()} {
		if err := m.Check(); err != nil {
			o.t.Fatal(err)
		}
	}
	for _, x := range out {
		switch x := x.(type) {
		case turn.Load:
			if o.slow {
				o.loads = append(o.loads, x)
				continue
			}
			o.loaded(x)
		case *turn.Run:
			if o.hung {
				continue
			}
			o.counts[x.Incarnation]++
			o.ran = append(o.ran, fmt.Sprintf("%s %s %d", x.Entity.ID, x.Env.Command, o.counts[x.Incarnation]))
			done := turn.TurnDone{Incarnation: x.Incarnation, Request: x.Request}
			switch x.Env.Command {
			case "Quit":
				done.Passivate = true
			case "Later":
				done.Timers = []turn.Timer{{Name: "t", After: 5 * time.Second, Command: "Tick"}}
			case "Often":
				done.Timers = []turn.Timer{{Name: "t", After: 5 * time.Second, Every: 5 * time.Second, Command: "Tick"}}
			}
			o.step(done)
		case turn.Stop:
			in := turn.Stopped{Incarnation: x.Incarnation}
			if x.Keep {
				in.Kept = &turn.Kept{Payload: []byte(fmt.Sprint(o.counts[x.Incarnation]))}
			}
			o.step(in)
		}
	}
}

func (o *owner) loaded(x turn.Load) {
	if x.Kept != nil {
		n := 0
		fmt.Sscan(string(x.Kept.Payload), &n)
		o.counts[x.Incarnation] = n
	}
	o.step(turn.Loaded{Entity: x.Entity, Incarnation: x.Incarnation})
}

func (o *owner) open(epoch uint32, kept []turn.Kept) {
	o.t.Helper()
	o.step(turn.Open{Shard: shardV, Epoch: sharding.MakeEpoch(1, epoch), Kept: kept})
}

func (o *owner) call(id, command string, deadline time.Duration) {
	o.t.Helper()
	env := sharding.Envelope{Entity: sharding.Entity{Type: "V", ID: sharding.EntityID(id)}, ID: sharding.CommandID(fmt.Sprint(id, len(o.ran), o.now.UnixNano())), Command: command}
	if deadline > 0 {
		env.Deadline = o.now.Add(deadline)
	}
	o.step(turn.Deliver{Request: turn.RequestID(len(o.ran) + 1), Shard: shardV, Env: &env})
}

func (o *owner) wait(d time.Duration) {
	o.t.Helper()
	for end := o.now.Add(d); o.now.Before(end); {
		o.now = o.now.Add(100 * time.Millisecond)
		o.step(turn.Tick{})
	}
}

// drain hands the shard off, and returns what is kept.
func (o *owner) drain() []turn.Kept {
	o.t.Helper()
	o.drained = nil
	o.step(turn.Drain{Shard: shardV})
	if o.drained == nil {
		o.t.Fatal("the shard is not drained")
	}
	return o.drained.Kept
}

func (o *owner) wantRan(want ...string) {
	o.t.Helper()
	if !slices.Equal(o.ran, want) {
		o.t.Fatalf("ran %q, want %q", o.ran, want)
	}
}

func ids(kept []turn.Kept) (list []string) {
	for _, k := range kept {
		list = append(list, fmt.Sprintf("%s=%s", k.ID, k.Payload))
	}
	return list
}

func wantKept(t *testing.T, kept []turn.Kept, want ...string) {
	t.Helper()
	if got := ids(kept); !slices.Equal(got, want) {
		t.Fatalf("kept %q, want %q", got, want)
	}
}

// TestKeptStates: the next owner continues with the states of all entities that were alive,
// also of entities without calls in between. What an entity has read is not kept any more.
func TestKeptStates(t *testing.T) {
	a, b, c := newOwner(t, nil), newOwner(t, nil), newOwner(t, nil)
	a.open(1, nil)
	for _, id := range []string{"x", "y", "x"} {
		a.call(id, "Add", 0)
	}
	kept := a.drain()
	wantKept(t, kept, "x=2", "y=1")
	b.open(2, kept)
	b.call("x", "Add", 0)
	b.wantRan("x Add 3")
	kept = b.drain()
	wantKept(t, kept, "x=3", "y=1")
	c.open(3, kept)
	c.call("y", "Add", 0)
	c.wantRan("y Add 2")
	c.wait(90 * time.Second) // idle: as if x and y had lived here all the time
	c.call("x", "Add", 0)
	c.call("y", "Add", 0)
	c.wantRan("y Add 2", "x Add 1", "y Add 1")
}

// TestKeptTimers: pending timers go on at the next owner, and bring their entity to life.
func TestKeptTimers(t *testing.T) {
	a, b := newOwner(t, nil), newOwner(t, nil)
	a.open(1, nil)
	a.call("x", "Later", 0)
	a.call("y", "Often", 0)
	a.wait(2 * time.Second)
	b.open(2, a.drain())
	b.wait(2900 * time.Millisecond)
	b.wantRan()
	b.wait(200 * time.Millisecond)
	b.wantRan("x Tick 2", "y Tick 2")
	b.wait(5 * time.Second)
	b.wantRan("x Tick 2", "y Tick 2", "y Tick 3")
	wantKept(t, b.drain(), "x=2", "y=3")
}

// TestKeptLimits: what is beyond the limits is not kept, and counted.
func TestKeptLimits(t *testing.T) {
	a := newOwner(t, func(c *turn.Config) { c.KeptEntities = 1 })
	a.open(1, nil)
	a.call("x", "Add", 0)
	a.call("y", "Add", 0)
	wantKept(t, a.drain(), "x=1")
	if got := a.m.KeptStats(); got != (turn.KeptStats{Kept: 1, OverLimit: 1}) {
		t.Errorf("counted %+v", got)
	}
	b := newOwner(t, func(c *turn.Config) { c.KeptBytes = 100 })
	b.open(1, []turn.Kept{{ID: "x", Payload: make([]byte, 100)}, {ID: "y", Payload: make([]byte, 10)}})
	if kept := b.drain(); len(kept) != 1 || kept[0].ID != "y" {
		t.Errorf("kept %v", ids(kept))
	}
}

// TestNotKept: without a hand-off in order nothing is kept; nor does a type keep anything that
// has not asked for it; what hangs at the hand-off is lost alone.
func TestNotKept(t *testing.T) {
	a := newOwner(t, nil)
	a.open(1, nil)
	a.call("x", "Add", 0)
	a.step(turn.Abort{Shard: shardV})
	wantKept(t, a.drained.Kept)

	b := newOwner(t, func(c *turn.Config) { c.Types[0].KeepOnMoves = false })
	b.open(1, []turn.Kept{{ID: "z"}})
	b.call("x", "Add", 0)
	wantKept(t, b.drain())

	c := newOwner(t, nil)
	c.open(1, nil)
	c.call("x", "Add", 0)
	c.hung = true
	c.call("y", "Add", 0)
	c.step(turn.Drain{Shard: shardV})
	c.wait(11 * time.Second)
	wantKept(t, c.drained.Kept, "x=1")
}

// TestKeptUntilAlive: a state that was not read, because no command waited for the load any
// more, is still kept.
func TestKeptUntilAlive(t *testing.T) {
	a := newOwner(t, nil)
	a.slow = true
	a.open(2, []turn.Kept{{ID: "x", Payload: []byte("7")}})
	a.call("x", "Add", time.Second)
	a.wait(2 * time.Second)
	if len(a.loads) != 1 || a.loads[0].Kept == nil || a.m.Stats().Entities != 0 {
		t.Fatalf("loads %+v, %d entities", a.loads, a.m.Stats().Entities)
	}
	a.loaded(a.loads[0])
	a.slow = false
	a.call("x", "Add", 0)
	a.wantRan("x Add 8")
}
