package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// brittle does not start once it has stored something.
type brittle struct{ N int }

func (b *brittle) OnStart(*entity.Ctx) error {
	if b.N > 0 {
		panic("it has stored something")
	}
	return nil
}

// TestBuiltinWithoutInstance: an operator deletes an entity whose start hook panics. Of volatile
// entities there is nothing to delete, and the answer says so.
func TestBuiltinWithoutInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runTypes(t, RunnerConfig{Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) { c.ShardCores = 1 })},
			entity.Define("Brittle", func(string) *brittle { return &brittle{} },
				entity.On(entity.Command[int, int]("Brittle", "Add"), func(b *brittle, ctx *entity.Ctx, _ int) (int, error) {
					ctx.Passivate()
					ctx.Persist(took{})
					return 7, nil
				}),
				entity.Event("took", func(b *brittle, _ took) { b.N++ }),
				entity.With[brittle](entity.Shards(4)),
			),
			entity.Define("Airy", func(string) *struct{} { return &struct{}{} },
				entity.On(entity.Command[int, int]("Airy", "Add"), func(*struct{}, *entity.Ctx, int) (int, error) { return 0, nil }),
				entity.With[struct{}](entity.Volatile(), entity.Shards(4)),
			))
		a := &answers{got: map[uint64]link.Answer{}}
		for i, step := range []struct{ typ, command, want string }{
			{"Brittle", "Add", "7"},
			{"Brittle", "Add", "internal the entity cannot be brought to life; the region"},
			{"Brittle", sharding.DeleteCommand, ""},
			{"Brittle", sharding.DeleteCommand, "not_found nothing is stored"},
			{"Brittle", "Add", "7"},
			{"Airy", sharding.DeleteCommand, "failed_precondition entities of type Airy are volatile: nothing is stored of them"},
		} {
			c := knock(uint64(i), "e", step.command)
			c.Envelope.Entity.Type, c.Envelope.Keyed, c.Envelope.ID = sharding.EntityType(step.typ), true, sharding.CommandID(fmt.Sprint("k", i))
			c.Envelope.Payload, c.Envelope.Deadline = []byte("1"), time.Now().Add(time.Minute)
			r.Submit(a, []link.Command{c})
			time.Sleep(5 * time.Second)
			synctest.Wait()
			reply := a.got[uint64(i)].Reply
			if got := strings.TrimSpace(string(reply.Code) + " " + reply.Message + string(reply.Payload)); !strings.HasPrefix(got, step.want) || step.want == "" && got != "" {
				t.Errorf("step %d, %s of %s: %q, want %q", i, step.command, step.typ, got, step.want)
			}
		}
	})
}
