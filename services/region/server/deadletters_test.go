package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// clerk writes letters to other clerks, who count those that they take.
type clerk struct{ Took int }

type took struct{}

var clerkTake = entity.Command[string, int]("Clerk", "Take", entity.Stored())

// clerks take letters unless busy is set.
func clerks(busy *bool) entity.Definition {
	return entity.Define("Clerk", func(string) *clerk { return &clerk{} },
		entity.On(entity.Command[string, int]("Clerk", "Write"), func(c *clerk, ctx *entity.Ctx, to string) (int, error) {
			clerkTake.Send(ctx, to, "dear "+to)
			clerkTake.Send(ctx, to, "dear "+to+" again")
			return c.Took, nil
		}),
		entity.On(clerkTake, func(c *clerk, ctx *entity.Ctx, _ string) (int, error) {
			if *busy {
				return 0, entity.Errorf(entity.FailedPrecondition, "busy")
			}
			ctx.Persist(took{})
			return c.Took, nil
		}),
		entity.On(entity.Command[string, int]("Clerk", "Count", entity.ReadOnly()), func(c *clerk, _ *entity.Ctx, _ string) (int, error) { return c.Took, nil }),
		entity.Event("took", func(c *clerk, _ took) { c.Took++ }),
		entity.With[clerk](entity.Shards(4)),
	)
}

// clerksAt runs a region with a type of clerks. What it returns has a command executed, and returns
// the code and the payload of its reply a while later.
func clerksAt(t *testing.T, def entity.Definition) func(id sharding.EntityID, command, payload string) string {
	t.Helper()
	links := link.DefaultConfig()
	links.Cluster, links.Self = "test", sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}
	cfg := DefaultConfig()
	r := runTypes(t, RunnerConfig{
		Log: askingLog(), Failures: 1000, Core: coreWith(func(c *region.Config) { c.ShardCores = 1 }),
		Router: &RouterConfig{Core: cfg.Routed, Link: links, Send: func(sharding.NodeID, control.Message) {}, Call: noCall},
	}, def)
	d := sharding.TableDelta{Full: true, Version: sharding.Version{Term: 1, N: 1}, Types: []sharding.TypeDesc{r.Types()[0].Desc}}
	for i := range uint32(4) {
		d.Rows = append(d.Rows, sharding.Row{Shard: sharding.ShardID{Type: "Clerk", Index: i}, Owner: links.Self, Epoch: sharding.MakeEpoch(1, i+1), Phase: sharding.Serving})
	}
	r.Put(region.Coordinators{Addrs: []string{"c:1"}}, region.Replied{From: "c:1", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: d}})
	a := &answers{got: map[uint64]link.Answer{}}
	number := uint64(0)
	return func(id sharding.EntityID, command, payload string) string {
		t.Helper()
		number++
		c := knock(number, id, command)
		c.Envelope.Entity.Type, c.Envelope.Keyed, c.Envelope.ID, c.Envelope.Payload = "Clerk", true, sharding.CommandID(fmt.Sprint(number)), []byte(payload)
		c.Envelope.Deadline = time.Now().Add(time.Minute)
		r.Submit(a, []link.Command{c})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		reply := a.got[number].Reply
		return strings.TrimSpace(string(reply.Code) + " " + string(reply.Payload))
	}
}

// TestDeadLetters: a region finds in its journal the dead letters that an operator resolves; a
// repeated one arrives, and a dropped one does not.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := true // guarded by the bubble: it changes while nothing runs
		do := clerksAt(t, clerks(&busy))
		for i, step := range []struct {
			id            sharding.EntityID
			command, with string
			want          string
		}{
			{"ann", "Write", `"bob"`, "0"}, // both are refused
			{"ann", sharding.SendAgainCommand, `{"record":1,"place":2}`, "not_found"},
			{"bob", sharding.SendAgainCommand, `{"record":1,"place":0}`, "not_found"},
			{"ann", sharding.SendAgainCommand, `{"record":1,"place":0}`, `{"record":2,"place":0}`},
			{"bob", "Count", `""`, "1"},
			{"ann", sharding.SendAgainCommand, `{"record":1,"place":0}`, "not_found"},
			{"ann", sharding.SendDropCommand, `{"record":1,"place":1}`, ""},
			{"ann", sharding.SendDropCommand, `{"record":1,"place":1}`, "not_found"},
			{"ann", sharding.SendDropCommand, `{"record":2,"place":0}`, "not_found"}, // it has arrived
			{"bob", "Count", `""`, "1"},
		} {
			if got := do(step.id, step.command, step.with); got != step.want {
				t.Errorf("step %d, %s of %s: %q, want %q", i, step.command, step.id, got, step.want)
			}
			busy = i < 2
		}
	})
}

// TestDropPending: an operator gives up a send whose target always panics. The sender's later
// sends to the same target then arrive.
func TestDropPending(t *testing.T) {
	var take, spoil = entity.Command[string, int]("Clerk", "Take", entity.Stored()), entity.Command[string, int]("Clerk", "Spoil", entity.Stored())
	def := entity.Define("Clerk", func(string) *clerk { return &clerk{} },
		entity.On(entity.Command[string, int]("Clerk", "Write"), func(_ *clerk, ctx *entity.Ctx, to string) (int, error) {
			spoil.Send(ctx, to, "")
			take.Send(ctx, to, "")
			return 0, nil
		}),
		entity.On(spoil, func(*clerk, *entity.Ctx, string) (int, error) { panic("always") }),
		entity.On(take, func(c *clerk, ctx *entity.Ctx, _ string) (int, error) {
			ctx.Persist(took{})
			return 0, nil
		}),
		entity.On(entity.Command[string, int]("Clerk", "Count", entity.ReadOnly()), func(c *clerk, _ *entity.Ctx, _ string) (int, error) { return c.Took, nil }),
		entity.Event("took", func(c *clerk, _ took) { c.Took++ }),
		entity.With[clerk](entity.Shards(4)),
	)
	synctest.Test(t, func(t *testing.T) {
		do := clerksAt(t, def)
		for i, step := range []struct {
			id            sharding.EntityID
			command, with string
			want          string
		}{
			{"ann", "Write", `"bob"`, "0"},
			{"bob", "Count", `""`, "0"},
			{"ann", sharding.SendDropCommand, `{"record":1,"place":0}`, "failed_precondition"},
			{"ann", sharding.SendAgainCommand, `{"record":1,"place":0,"may_repeat":true}`, "failed_precondition"},
			{"bob", "Count", `""`, "0"},
			{"ann", sharding.SendDropCommand, `{"record":1,"place":0,"may_have_run":true}`, ""},
			{"bob", "Count", `""`, "1"},
			{"ann", sharding.SendDropCommand, `{"record":1,"place":0,"may_have_run":true}`, "not_found"},
			{"ann", sharding.SendDropCommand, `{"record":1,"place":1,"may_have_run":true}`, "not_found"}, // it has arrived
		} {
			if got := do(step.id, step.command, step.with); got != step.want {
				t.Errorf("step %d, %s of %s: %q, want %q", i, step.command, step.id, got, step.want)
			}
		}
	})
}
