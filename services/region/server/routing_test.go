package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// bell is an entity that counts how often it rings, and can have others ring.
type bell struct{ n int }

var ringBell = entity.Command[struct{}, int]("Bell", "Ring")

// tower has the bells of a test.
type tower struct {
	*gate
	r *Runner
}

// ring is a command that makes a bell ring.
func ring(id string) sharding.Envelope {
	return sharding.Envelope{Entity: sharding.Entity{Type: "Bell", ID: sharding.EntityID(id)}, Command: "Ring", Payload: []byte("{}")}
}

func (tw *tower) typ() entity.Definition {
	return entity.Define("Bell", func(string) *bell { return &bell{} },
		entity.On(ringBell, func(b *bell, _ *entity.Ctx, _ struct{}) (int, error) {
			b.n++
			return b.n, nil
		}),
		entity.On(entity.Command[struct{}, int]("Bell", "Count", entity.ReadOnly()), func(b *bell, _ *entity.Ctx, _ struct{}) (int, error) {
			return b.n, nil
		}),
		entity.On(entity.Command[struct{}, int]("Bell", "Hang"), func(*bell, *entity.Ctx, struct{}) (int, error) {
			tw.pass()
			return 0, nil
		}),
		entity.On(entity.Command[string, int]("Bell", "Ask"), func(_ *bell, ctx *entity.Ctx, other string) (int, error) {
			return ringBell.Ask(ctx, other, struct{}{})
		}),
		entity.On(entity.Command[struct{}, int]("Bell", "Later"), func(_ *bell, ctx *entity.Ctx, _ struct{}) (int, error) {
			ringBell.After(ctx, time.Second, "later", struct{}{})
			return 0, nil
		}),
		entity.On(entity.Command[string, string]("Bell", "Have"), func(_ *bell, _ *entity.Ctx, other string) (string, error) {
			r := tw.ask(ring(other), false)
			return fmt.Sprintf("%s %s", r.Outcome, r.Payload), nil
		}),
		entity.With[bell](entity.Volatile(), entity.Shards(4)),
	)
}

// ask routes a command and waits for the reply.
func (tw *tower) ask(env sharding.Envelope, readOnly bool) sharding.Reply {
	got := make(chan sharding.Reply, 2)
	tw.r.Route(env, readOnly, func(r sharding.Reply) { got <- r })
	return <-got
}

// runTower runs a region that hosts all shards, at the epochs 1.1 to 1.4, and whose table says
// so, or says something older.
func runTower(t *testing.T, cores int, older sharding.Epoch, change func(*RunnerConfig)) *tower {
	t.Helper()
	tw := &tower{gate: &gate{open: make(chan struct{}), waiting: make(chan struct{}, 1000)}}
	links := link.DefaultConfig()
	links.Cluster, links.Self = "test", sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}
	cfg := DefaultConfig()
	c := RunnerConfig{
		Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) { c.ShardCores = cores }),
		Router: &RouterConfig{Core: cfg.Routed, Link: links, Send: func(sharding.NodeID, control.Message) {}, Call: noCall},
	}
	if change != nil {
		change(&c)
	}
	tw.r = runTypes(t, c, tw.typ())
	types := tw.r.Types()
	d := sharding.TableDelta{Full: true, Version: sharding.Version{Term: 1, N: 1}, Types: []sharding.TypeDesc{types[0].Desc}}
	for i := range uint32(4) {
		d.Rows = append(d.Rows, sharding.Row{
			Shard: sharding.ShardID{Type: "Bell", Index: i}, Owner: links.Self, Epoch: sharding.MakeEpoch(1, i+1) - older, Phase: sharding.Serving,
		})
	}
	tw.r.Put(region.Coordinators{Addrs: []string{"c:1"}}, region.Replied{From: "c:1", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: d}})
	synctest.Wait()
	return tw
}

// TestRoute: an entity sends a command to another one of its region, by the router that starts
// with it.
func TestRoute(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		tw := runTower(t, cores, 0, nil)
		if tw.r.routing.started.Load() {
			t.Error("a region that routes nothing runs a router")
		}
		a := &answers{got: map[uint64]link.Answer{}}
		have := func(number uint64, id, other string) link.Command {
			c := knock(number, sharding.EntityID(id), "Have")
			c.Envelope.Entity.Type, c.Envelope.ID, c.Envelope.Payload = "Bell", sharding.CommandID(fmt.Sprint(number)), fmt.Appendf(nil, "%q", other)
			return c
		}
		tw.r.Submit(a, []link.Command{have(1, "a", "b"), have(2, "c", "b"), have(3, "d", "e")})
		time.Sleep(time.Second) // the router may have to try again
		synctest.Wait()
		got := string(a.got[1].Reply.Payload) + string(a.got[2].Reply.Payload) + string(a.got[3].Reply.Payload)
		if got != `"executed 1""executed 2""executed 1"` && got != `"executed 2""executed 1""executed 1"` {
			t.Errorf("answered %s", got)
		}
		if r := tw.ask(ring("x"), true); r.Outcome != sharding.NotApplied || r.Code != sharding.FailedPrecondition {
			t.Errorf("a changing command is sent as read-only: %+v", r)
		}
		keyed := ring("b")
		keyed.Keyed, keyed.ID = true, sharding.DerivedKey(sharding.SendPrefix, time.Time{}, "1")
		if r := tw.ask(keyed, false); r.Outcome != sharding.Executed || string(r.Payload) != "3" {
			t.Errorf("with a key that only regions make: %+v", r)
		}
		count := ring("b")
		count.Command = "Count"
		if r := tw.ask(count, true); r.Outcome != sharding.Executed || string(r.Payload) != "3" {
			t.Errorf("read: %+v", r)
		}
		bad := ring("b\x00")
		large := ring("b")
		large.Payload = make([]byte, sharding.MaxPayload+1)
		for _, env := range []sharding.Envelope{bad, large} {
			if r := tw.ask(env, false); r.Outcome != sharding.NotApplied || r.Code != sharding.InvalidArgument {
				t.Errorf("taken: %+v", r)
			}
		}
	})
}

// TestRouteLearns: the region does not serve its shards at the epochs that the table has. It
// refuses the commands, as it does for gateways, and the router learns from that.
func TestRouteLearns(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		tw := runTower(t, cores, 1, nil)
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			if r := tw.ask(ring(id), false); r.Outcome != sharding.Executed {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
}

// TestRouteIntoAFullInbox: the inbox is full, and a link waits for room. A command of an entity
// comes in all the same: the turns that would make room may wait for its answer.
func TestRouteIntoAFullInbox(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		tw := runTower(t, cores, 0, nil)
		if r := tw.ask(ring("a"), false); r.Outcome != sharding.Executed {
			t.Fatalf("%+v", r)
		}
		tw.r.inbox.mu.Lock()
		tw.r.inbox.limit = 2
		tw.r.inbox.mu.Unlock()
		for _, l := range tw.r.shards {
			l.stepping.Lock() // no goroutine reads the inbox
		}
		a := &answers{got: map[uint64]link.Answer{}}
		var cmds []link.Command
		var numbers []uint64
		for i := range uint64(20) {
			c := knock(i, sharding.EntityID(rune('a'+i)), "Ring")
			c.Envelope.Entity.Type, c.Envelope.ID = "Bell", sharding.CommandID(fmt.Sprint(i))
			cmds, numbers = append(cmds, c), append(numbers, i)
		}
		var submitted sync.WaitGroup
		submitted.Go(func() { tw.r.Submit(a, cmds) })
		synctest.Wait()
		const asks = 30
		got := make(chan sharding.Reply, asks)
		for i := range asks {
			tw.r.Route(ring(fmt.Sprint(i)), false, func(r sharding.Reply) { got <- r })
		}
		synctest.Wait()
		waiting := 0
		tw.r.inbox.mu.Lock()
		for i := range tw.r.inbox.next {
			waiting += len(tw.r.inbox.next[i].arrivals)
		}
		tw.r.inbox.mu.Unlock()
		if waiting < asks || len(got) > 0 {
			t.Errorf("%d commands have arrived, %d are answered", waiting, len(got))
		}
		for _, l := range tw.r.shards {
			l.stepping.Unlock()
			l.wake()
		}
		submitted.Wait()
		synctest.Wait()
		for range asks {
			if r := <-got; r.Outcome != sharding.Executed {
				t.Errorf("%+v", r)
			}
		}
		a.want(t, numbers...)
	})
}

// TestRouteIsBounded: more commands than the limit are refused at once.
func TestRouteIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw := runTower(t, 1, 0, func(c *RunnerConfig) { c.Router.Core.MaxWaiting, c.Router.Core.MaxTotal = 5, 8 })
		hang := ring("a")
		hang.Command = "Hang"
		got := make(chan sharding.Reply, 100)
		for range 10 {
			tw.r.Route(hang, false, func(r sharding.Reply) { got <- r })
			synctest.Wait()
		}
		for range 5 {
			if r := <-got; r.Outcome != sharding.NotApplied || r.Code != sharding.ResourceExhausted || !strings.Contains(r.Message, "shard") {
				t.Errorf("%+v", r)
			}
		}
		if len(got) > 0 {
			t.Errorf("answered: %+v", <-got)
		}
		close(tw.open)
	})
}

// TestRouteAtTheEnd: what is outstanding when the region ends is unknown, and what comes later
// is not applied.
func TestRouteAtTheEnd(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		tw := runTower(t, cores, 0, nil)
		hang := ring("a")
		hang.Command = "Hang"
		got := make(chan sharding.Reply, 2)
		tw.r.Route(hang, false, func(r sharding.Reply) { got <- r })
		soon(t, tw.waiting)
		tw.r.End()
		if r := <-got; r.Outcome != sharding.Unknown || r.Code != sharding.Unavailable {
			t.Errorf("%+v", r)
		}
		if r := tw.ask(ring("b"), false); r.Outcome != sharding.NotApplied || r.Code != sharding.Unavailable {
			t.Errorf("%+v", r)
		}
		close(tw.open)
		time.Sleep(time.Second)
		if len(got) > 0 {
			t.Errorf("answered twice: %+v", <-got)
		}
	})
}

// TestNoRoute: a runner without a router says so.
func TestNoRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := runDoors(t, 1)
		if r := (&tower{r: s}).ask(ring("a"), false); r.Outcome != sharding.NotApplied {
			t.Errorf("%+v", r)
		}
	})
}

// noCall is for routers whose shards are always served.
func noCall(context.Context, string, control.Message) (control.Message, error) {
	return nil, errors.New("no region is there")
}
