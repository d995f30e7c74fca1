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

// maker notes which turns make an instance, and which loads there are. Only test code ends a turn or a load.
type maker struct {
	t    *testing.T
	m    *turn.Machine
	now  time.Time
	last turn.RequestID
	out  []turn.Output
}

func newMaker(t *testing.T, change func(*turn.Type)) *maker {
	typ := turn.Type{
		Desc:        sharding.TypeDesc{Type: "V", Shards: 1, Volatile: true, Commands: []sharding.CommandDesc{{Name: "Add"}}},
		Passivation: passivation.Idle(time.Minute), NoLoad: true,
	}
	if change != nil {
		change(&typ)
	}
	o := &maker{t: t, m: turn.New(turn.DefaultConfig(typ)), now: time.Unix(1000, 0)}
	return o
}

// step returns what the machine wants done: "new 1" is a turn of the request 1 that makes the instance.
func (o *maker) step(in turn.Input) (does []string) {
	o.t.Helper()
	o.out = o.m.Step(o.now, in, nil)
	for _, m := range []*turn.Machine{o.m, o.m.Clone()} {
		if err := m.Check(); err != nil {
			o.t.Fatal(err)
		}
	}
	for _, x := range o.out {
		switch x := x.(type) {
		case turn.Load:
			does = append(does, fmt.Sprintf("load bare %t kept %t", x.Bare, x.Kept != nil))
		case *turn.Run:
			does = append(does, fmt.Sprintf("%s %d", map[bool]string{true: "new", false: "run"}[x.New], x.Request))
		case *turn.Answer:
			does = append(does, fmt.Sprintf("answer %d %s", x.Request, x.Reply.Outcome))
		default:
			does = append(does, fmt.Sprintf("%T", x))
		}
	}
	return does
}

func (o *maker) want(got []string, want ...string) {
	o.t.Helper()
	if !slices.Equal(got, want) {
		o.t.Fatalf("the machine does %q, want %q", got, want)
	}
}

func (o *maker) open(kept ...turn.Kept) {
	o.t.Helper()
	o.want(o.step(turn.Open{Shard: shardV, Epoch: sharding.MakeEpoch(1, 1), Kept: kept}))
}

func (o *maker) call(within time.Duration) []string {
	o.t.Helper()
	o.last++
	return o.step(turn.Deliver{Request: o.last, Shard: shardV, Env: &sharding.Envelope{
		Entity: sharding.Entity{Type: "V", ID: "a"}, ID: sharding.CommandID(fmt.Sprint(o.last)), Command: "Add", Deadline: o.now.Add(within),
	}})
}

// done ends the turn that the last step has begun.
func (o *maker) done(change func(*turn.TurnDone)) []string {
	o.t.Helper()
	run := o.out[len(o.out)-1].(*turn.Run)
	in := turn.TurnDone{Incarnation: run.Incarnation, Request: run.Request, Reply: sharding.Reply{Outcome: sharding.Executed}}
	if change != nil {
		change(&in)
	}
	return o.step(in)
}

// TestFirstTurnMakesTheInstance: an entity without a start hook is not loaded.
func TestFirstTurnMakesTheInstance(t *testing.T) {
	o := newMaker(t, nil)
	o.open()
	o.want(o.call(time.Second), "new 1")
	began := o.out
	o.want(o.call(time.Second))
	o.out = began
	o.want(o.done(nil), "answer 1 executed", "run 2")
	o.want(o.done(func(d *turn.TurnDone) { d.Passivate = true }), "answer 2 executed", "turn.Stop")
	stop := o.out[1].(turn.Stop)
	o.want(o.step(turn.Stopped{Incarnation: stop.Incarnation}))
	o.want(o.call(time.Second), "new 3")
	if st := o.m.Stats(); st.Activations != 2 || st.Entities != 1 || st.Loads != 0 {
		t.Errorf("%+v", st)
	}
}

// TestTimeInTheMailbox: a command that is refused because its deadline has passed in the mailbox reports the time that
// it spent there, whether the turn before it ends or not.
func TestTimeInTheMailbox(t *testing.T) {
	for name, late := range map[string]func(*maker) []string{
		"the turn continues": func(o *maker) []string { return o.step(turn.Tick{}) },
		"the turn ends":      func(o *maker) []string { return o.done(nil)[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			o := newMaker(t, nil)
			o.open()
			o.want(o.call(time.Minute), "new 1")
			began := o.out
			o.want(o.call(time.Second))
			o.now, o.out = o.now.Add(2*time.Second), began
			o.want(late(o), "answer 2 not_applied")
			if a := o.out[len(o.out)-1].(*turn.Answer); a.Reply.Timing.Mailbox != 2*time.Second {
				t.Errorf("%+v", a.Reply)
			}
		})
	}
}

// TestInstanceIsNotMade: if no instance could be made, the next turn makes one.
func TestInstanceIsNotMade(t *testing.T) {
	o := newMaker(t, nil)
	o.open()
	failed := func(d *turn.TurnDone) { d.Spoiled, d.Reply = true, sharding.Reject(sharding.Internal, "no instance") }
	o.want(o.call(time.Second), "new 1")
	began := o.out
	o.want(o.call(time.Second))
	o.out = began
	o.want(o.done(failed), "answer 1 not_applied", "turn.Drop", "new 2")
	o.want(o.done(failed), "answer 2 not_applied", "turn.Drop")
	if st := o.m.Stats(); st.Entities != 0 {
		t.Errorf("%+v", st)
	}
	o.want(o.call(time.Second), "new 3")
	began = o.out
	o.want(o.call(time.Millisecond))
	o.now, o.out = o.now.Add(time.Minute), began
	o.want(o.done(failed), "answer 3 not_applied", "turn.Drop", "answer 4 not_applied") // no command waits for a new instance: nothing is stopped
	if st := o.m.Stats(); st.Entities != 0 {
		t.Errorf("%+v", st)
	}
}

// TestKeptStateIsLoaded: an entity whose state is kept is loaded with it, and a quarantined one without an instance.
func TestKeptStateIsLoaded(t *testing.T) {
	o := newMaker(t, func(typ *turn.Type) { typ.KeepOnMoves = true })
	o.open(turn.Kept{ID: "a", Payload: []byte("state")})
	o.want(o.call(time.Second), "load bare false kept true")
	load := o.out[0].(turn.Load)
	o.want(o.step(turn.Loaded{Entity: load.Entity, Incarnation: load.Incarnation}), "run 1")
	o.want(o.done(func(d *turn.TurnDone) { d.Spoiled = true }), "answer 1 executed", "turn.Drop")
	o.want(o.call(time.Second), "new 2") // the state has lived
	o.want(o.done(func(d *turn.TurnDone) { d.Spoiled = true }), "answer 2 executed", "turn.Drop")
	o.want(o.step(turn.SetQuarantine{Type: "V", List: []sharding.Quarantined{{ID: "a", Why: "by an operator"}}}))
	o.want(o.call(time.Second), "load bare true kept false")
}

// TestLimitsOfLoads: an entity that is not loaded does not wait for the loads of others.
func TestLimitsOfLoads(t *testing.T) {
	for _, noLoad := range []bool{true, false} {
		o := newMaker(t, func(typ *turn.Type) { typ.NoLoad = noLoad })
		o.open()
		o.m.Limit(turn.Usage{Commands: 10, Bytes: 1 << 20}, turn.Usage{})
		want := "answer 1 not_applied"
		if noLoad {
			want = "new 1"
		}
		o.want(o.call(time.Second), want)
	}
}

// TestOnlyVolatileTypesAreNotLoaded: stored data must be read.
func TestOnlyVolatileTypesAreNotLoaded(t *testing.T) {
	for _, volatile := range []bool{true, false} {
		cfg := newScenario().cfg
		cfg.Types[0].NoLoad, cfg.Types[0].Desc.Volatile, cfg.Types[0].SnapshotEvery = true, volatile, 0
		if err := cfg.Validate(); (err == nil) != volatile {
			t.Errorf("volatile %t: %v", volatile, err)
		}
	}
}

// TestTurnThatMakesIsAborted: if the shard is aborted during the first turn, which makes the instance, the driver receives the
// order to cancel the turn and to drop the instance. The end of that turn has no effect.
func TestTurnThatMakesIsAborted(t *testing.T) {
	o := newMaker(t, nil)
	o.open()
	o.want(o.call(time.Second), "new 1")
	run := o.out[0].(*turn.Run)
	late := turn.TurnDone{Incarnation: run.Incarnation, Request: run.Request, Reply: sharding.Reply{Outcome: sharding.Executed}}
	o.want(o.step(turn.Abort{Shard: shardV}), "turn.Cancel", "turn.Drop")
	o.want(o.step(late))
}

// TestVolatileEntityHasNoRecords: whatever records a driver reports for a volatile entity, nothing is kept that all
// of them would share. Check finds it.
func TestVolatileEntityHasNoRecords(t *testing.T) {
	o := newMaker(t, func(typ *turn.Type) { typ.NoLoad = false })
	o.open()
	o.want(o.call(time.Second), "load bare false kept false")
	load := o.out[0].(turn.Load)
	o.want(o.step(turn.Loaded{Entity: load.Entity, Incarnation: load.Incarnation, LastSeq: 5, Fresh: true, Pending: 1, Reminders: 1}), "run 1")
	run := o.out[0].(*turn.Run)
	o.want(o.step(turn.SendsEnded{Shard: shardV, Epoch: run.Epoch, Entity: run.Entity, Seqs: []uint64{0, 1}}))
	o.want(o.step(turn.TurnDone{
		Incarnation: run.Incarnation, Request: run.Request, Reply: sharding.Reply{Outcome: sharding.Executed},
		Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: "r", Due: 1}},
	}), "answer 1 executed")
}
