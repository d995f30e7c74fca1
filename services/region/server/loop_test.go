package server

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/suspects"
)

// door is an entity whose commands may take long.
type door struct{ n int }

// gate holds up every goroutine that comes to it.
type gate struct {
	open    chan struct{}
	waiting chan struct{}
}

func (g *gate) pass() {
	g.waiting <- struct{}{}
	<-g.open
}

func (g *gate) typ() entity.Definition {
	return entity.Define("Door", func(string) *door { return &door{} },
		entity.On(entity.Command[struct{}, int]("Door", "Knock"), func(d *door, _ *entity.Ctx, _ struct{}) (int, error) {
			d.n++
			return d.n, nil
		}),
		entity.On(entity.Command[struct{}, int]("Door", "Pass"), func(*door, *entity.Ctx, struct{}) (int, error) {
			g.pass()
			return 0, nil
		}),
		entity.With[door](entity.Volatile(), entity.Shards(4)),
	)
}

// answers collects the answers of a test.
type answers struct {
	mu  sync.Mutex
	got map[uint64]link.Answer
}

func (a *answers) SendBatch(as []link.Answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range as {
		a.got[x.Number] = x
	}
	return nil
}

func (*answers) Unsent() int { return 0 }
func (*answers) Ended() bool { return false }

func (*answers) Waiting() {}

// count returns how many answers have come.
func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.got)
}

// want fails unless these and no others were answered since the last call.
func (a *answers) want(t *testing.T, numbers ...uint64) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range numbers {
		if x, ok := a.got[c]; !ok || x.Reply.Outcome != sharding.Executed {
			t.Errorf("command %d: %+v", c, x)
		}
		delete(a.got, c)
	}
	if len(a.got) > 0 {
		t.Errorf("answered besides: %+v", a.got)
	}
	clear(a.got)
}

// soon waits for what should come: the core's clock ticks forever, so that a test
// which waits in vain would never end.
func soon(t *testing.T, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(time.Minute):
		t.Fatal("waited in vain")
	}
}

func runDoors(t *testing.T, cores int) (*Runner, *gate) {
	t.Helper()
	g := &gate{open: make(chan struct{}), waiting: make(chan struct{}, 100)}
	return runTypes(t, RunnerConfig{
		Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) { c.ShardCores = cores }),
	}, g.typ()), g
}

// withCores runs a test with one shard core and with several.
func withCores(t *testing.T, test func(t *testing.T, cores int)) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d cores", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, n) })
		})
	}
}

// runTypes runs a runner of types that have four shards, at the epochs 1.1 to 1.4.
// coreWith returns the default configuration of the cores with a change.
func coreWith(change func(*region.Config)) *region.Config {
	c := region.DefaultConfig(sharding.NodeID{}, "")
	if change != nil {
		change(&c)
	}
	return &c
}

func runTypes(t *testing.T, c RunnerConfig, types ...entity.Definition) *Runner {
	t.Helper()
	c.Self, c.Name, c.Types = sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}, "doors", types
	c.Inbox, c.StopTimeout, c.Outside = 1000, time.Second, func(region.ControlOutput) {}
	s, err := NewRunner(c)
	if err != nil {
		t.Fatal(err)
	}
	d := journal.Declaration{Cluster: "test"}
	for _, typ := range s.Types() {
		d.Types = append(d.Types, typ.Desc)
	}
	b, err := open.Open(t.Context(), "memory:", journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	j, err := commit.Open(t.Context(), b, d, journal.DefaultConfig(), s.Observer())
	if err != nil {
		t.Fatal(err)
	}
	s.Use(j)
	var run sync.WaitGroup
	run.Go(s.Run)
	t.Cleanup(func() {
		s.End()
		run.Wait()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, typ := range s.Types() {
		for i := range uint32(4) {
			s.Put(region.Received{Msg: control.HostShard{Term: 1, Shard: sharding.ShardID{Type: typ.Desc.Type, Index: i}, Epoch: sharding.MakeEpoch(1, uint32(i+1))}})
		}
	}
	synctest.Wait()
	return s
}

func knock(number uint64, id sharding.EntityID, command string) link.Command {
	return link.Command{
		Number: number, Epoch: sharding.MakeEpoch(1, shardingtest.ShardOf(id, 4)+1),
		Envelope: sharding.Envelope{Entity: sharding.Entity{Type: "Door", ID: id}, Command: command, ID: sharding.CommandID(id), Payload: []byte("{}")},
	}
}

func TestSomebodyElseGoesOnWhenAnInlineRunnerIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := runDoors(t, 1)
		a := &answers{got: map[uint64]link.Answer{}}
		left := make(chan struct{}, 1)
		served := make(chan struct{})
		go func() {
			s.Serve(a, []link.Command{knock(1, "a", "Knock"), knock(2, "b", "Pass"), knock(3, "c", "Knock")},
				func() { left <- struct{}{} })
			close(served)
		}()
		soon(t, g.waiting)
		soon(t, left)
		synctest.Wait()
		a.want(t, 1, 3) // the one before and the one behind
		select {
		case <-served:
			t.Error("Serve returned though it is held up")
		default:
		}

		// What takes long is done by the pool from now on, and inline runners are quick.
		s.Serve(a, []link.Command{knock(4, "d", "Pass"), knock(5, "a", "Knock")}, func() { t.Error("an inline runner was held up") })
		soon(t, g.waiting)
		synctest.Wait()
		a.want(t, 5)

		close(g.open)
		soon(t, served)
		synctest.Wait()
		a.want(t, 2, 4)
	})
}

func TestManySlowTurnsBesideEachOther(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s, g := runDoors(t, cores)
		a := &answers{got: map[uint64]link.Answer{}}
		var cmds []link.Command
		var numbers []uint64
		for i := range uint64(50) {
			cmds, numbers = append(cmds, knock(i, sharding.EntityID(rune('A'+i)), "Pass")), append(numbers, i)
		}
		s.Submit(a, cmds)
		for range numbers {
			soon(t, g.waiting) // all of them are in progress
		}
		close(g.open)
		synctest.Wait()
		a.want(t, numbers...)
	})
}

func TestNobodyStepsTheCoreAfterTheEnd(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s, g := runDoors(t, cores)
		a := &answers{got: map[uint64]link.Answer{}}
		s.Submit(a, []link.Command{knock(1, "a", "Pass")})
		soon(t, g.waiting)
		s.End()
		synctest.Wait()
		close(g.open)
		s.Serve(a, []link.Command{knock(2, "b", "Knock")}, nil)
		synctest.Wait()
		a.want(t)
	})
}

// TestOneReaderFeedsAllCores: commands of one batch are for several shard cores. The turns
// of an entity keep their order, and a turn that is held up holds up no other core.
func TestOneReaderFeedsAllCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := runDoors(t, 3)
		a := &answers{got: map[uint64]link.Answer{}}
		seen := map[int]bool{}
		var cmds []link.Command
		var numbers []uint64
		const entities, rounds = 12, 5
		for round := range uint64(rounds) {
			for e := range uint64(entities) {
				c := knock(round*entities+e, sharding.EntityID(rune('a'+e)), "Knock")
				c.Envelope.ID = sharding.CommandID(fmt.Sprint(c.Number))
				seen[s.coreOf(c.Envelope.Entity)] = true
				cmds, numbers = append(cmds, c), append(numbers, c.Number)
			}
		}
		if len(seen) != 3 {
			t.Fatalf("the commands are for %d cores", len(seen))
		}
		cmds = append(cmds, knock(1000, "held up", "Pass"))
		yielded := make(chan struct{}, 1)
		go s.Serve(a, cmds, func() { yielded <- struct{}{} })
		soon(t, g.waiting)
		time.Sleep(tickEvery) // later jobs go to others
		synctest.Wait()
		a.mu.Lock()
		for e := range uint64(entities) {
			for round := range uint64(rounds) {
				if got := string(a.got[round*entities+e].Reply.Payload); got != fmt.Sprint(round+1) {
					t.Errorf("knock %d of entity %d is answered with %s", round+1, e, got)
				}
			}
		}
		a.mu.Unlock()
		a.want(t, numbers...)
		close(g.open)
		synctest.Wait()
		a.want(t, 1000)
	})
}

// TestLimitsAreOfAllCores: however the commands are spread, so many wait and no more.
func TestLimitsAreOfAllCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{}), waiting: make(chan struct{}, 1000)}
		const total, cores = 96, 3
		s := runTypes(t, RunnerConfig{Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) {
			c.ShardCores, c.Turn.TotalCommands = cores, total
		})}, g.typ())
		a := &answers{got: map[uint64]link.Answer{}}
		// All for one core: again and again, as one that is refused is sent again.
		var ids []sharding.EntityID
		for i := 0; len(ids) < total; i++ {
			id := sharding.EntityID(fmt.Sprint(i))
			if c := knock(0, id, "Pass"); s.coreOf(c.Envelope.Entity) == 1 {
				ids = append(ids, id)
			}
		}
		wait := map[sharding.EntityID]bool{}
		number := uint64(0)
		for range 3 * total {
			for _, id := range ids {
				if wait[id] {
					continue
				}
				number++
				s.Submit(a, []link.Command{knock(number, id, "Pass")})
				synctest.Wait()
				if _, refused := a.got[number]; refused {
					break
				}
				wait[id] = true
			}
			clear(a.got)
			time.Sleep(tickEvery)
		}
		c, err := s.counts(t.Context())
		st := c.st
		const most = total - total/turn.ReservedShare
		if least := most - (cores-1)*(most/cores/16); err != nil || st.Commands < least || st.Commands > most {
			t.Errorf("%d commands wait for one core, at least %d and at most %d may: %v", st.Commands, least, most, err)
		}
		close(g.open)
	})
}

// onlyNotes returns the turn that, by the notes, alone ended the process, or none.
type onlyNotes struct {
	only   control.CrashedTurn
	nobody bool
}

func (*onlyNotes) Begin(control.CrashedTurn) int   { return 0 }
func (*onlyNotes) NotAlone(int)                    {}
func (*onlyNotes) End(int, time.Time)              {}
func (n *onlyNotes) Only(turn control.CrashedTurn) { n.only = turn }
func (n *onlyNotes) Nobody()                       { n.nobody = true }

// TestCorePanics: if the core panics when it takes in a command, this command is noted, and the panic continues.
func TestCorePanics(t *testing.T) {
	var notes onlyNotes
	n := &noter{queue: suspects.New(&notes)}
	s := &shardLoop{shared: &shared{noter: n, inbox: newInbox(1, 1, nil, nil, nil)}} // without a core
	culprit := sharding.Entity{Type: "Door", ID: "front"}
	s.batch.arrivals = []arrival{{cmd: link.Command{Envelope: sharding.Envelope{Entity: culprit, Command: "Knock"}}}}
	defer func() {
		if recover() == nil {
			t.Error("the panic does not go on")
		}
		if want := (control.CrashedTurn{Entity: culprit, Command: "Knock", Alone: true}); notes.only != want {
			t.Errorf("%+v is noted, want %+v", notes.only, want)
		}
	}()
	s.takeIn()
}

// TestOtherCorePanics: if the control core panics, or the core of the router, no entity is suspected, and the panic continues.
func TestOtherCorePanics(t *testing.T) {
	for _, name := range []string{"control", "router"} {
		var notes onlyNotes
		n := &noter{queue: suspects.New(&notes)}
		r := &Runner{shared: &shared{noter: n, ctx: t.Context()}, control: &controlLoop{inbox: loop.NewInbox[controlItem](controlLimits)}} // without a core
		r.control.put(controlItem{in: region.Tick{}})
		run := r.Run
		if name == "router" {
			run = (&routing{runner: r}).run
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic does not go on", name)
				}
			}()
			run()
		}()
		if !notes.nobody {
			t.Errorf("after a panic of the %s core, turns are suspected", name)
		}
	}
	var notes onlyNotes
	(&noter{queue: suspects.New(&notes)}).stepsCore(func() {})
	if notes.nobody {
		t.Error("without a panic, turns are not noted any more")
	}
}

// While an inline runner will look at the inbox, no worker is woken for its new inputs. When the runner leaves
// without another look, a worker is woken.
func TestInlineRunnerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := runDoors(t, 1)
		l, done := s.shards[0], make(chan struct{})
		l.inline.Add(1)
		l.put(item{do: func() { close(done) }})
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("another goroutine was woken")
		default:
		}
		l.leaveInline()
		soon(t, done)
	})
}
