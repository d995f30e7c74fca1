package entity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// brittle has a reducer that cannot take every event.
type brittle struct{ names map[string]int }

type named struct{ Name string }

func brittles() entity.Definition {
	persist := func(ctx *entity.Ctx, name string) {
		defer func() { _ = recover() }()
		ctx.Persist(named{name})
	}
	return entity.Define("Brittle", func(string) *brittle { return &brittle{} },
		entity.On(entity.Command[string, int]("Brittle", "Recover"), func(_ *brittle, ctx *entity.Ctx, name string) (int, error) {
			persist(ctx, name)
			return 1, nil
		}),
		entity.On(entity.Command[string, int]("Brittle", "Refuse"), func(_ *brittle, ctx *entity.Ctx, name string) (int, error) {
			persist(ctx, name)
			return 1, entity.Errorf(entity.NotFound, "no")
		}),
		entity.On(entity.Command[string, int]("Brittle", "Ignore"), func(_ *brittle, ctx *entity.Ctx, _ string) (int, error) {
			ctx.Persist(grown{})
			return 1, nil
		}),
		entity.Event("named", func(b *brittle, ev named) {
			if ev.Name == "bad" {
				panic("evil reducer")
			}
			b.names = map[string]int{ev.Name: 1}
		}),
	)
}

// TestApplyBreaksTheTurn: an event that its reducer did not take is never stored, and the caller is not told of a success,
// whatever the handler does. The same holds for an event that cannot be stored.
func TestApplyBreaksTheTurn(t *testing.T) {
	if why := unapplied(t); why != "" {
		t.Error(why)
	}
}

func unapplied(t *testing.T) string {
	run := func(command, name string) (turn.TurnDone, error) {
		i, err := instance.New(brittles(), "b")
		if err != nil {
			t.Fatal(err)
		}
		return i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: command, Payload: fmt.Appendf(nil, "%q", name)}}, nil)
	}
	done, failed := run("Recover", "bad")
	var p *instance.Panic
	if done.Reply.Outcome != sharding.NotApplied || !done.Spoiled || len(done.Events) > 0 || !errors.As(failed, &p) || !strings.Contains(failed.Error(), "reducer of event named: evil reducer") || !strings.Contains(p.Stack, "brittle") {
		return fmt.Sprintf("recovered: %+v, %v", done, failed)
	}
	if done, failed = run("Refuse", "bad"); done.Reply.Code != sharding.NotFound || !done.Spoiled || len(done.Events) > 0 {
		return fmt.Sprintf("refused: %+v, %v", done, failed)
	}
	if done, failed = run("Ignore", ""); done.Reply.Outcome != sharding.NotApplied || !errors.Is(failed, instance.ErrUnknownEvent) {
		return fmt.Sprintf("ignored: %+v, %v", done, failed)
	}
	if done, failed = run("Recover", "good"); done.Reply.Outcome != sharding.Executed || len(done.Events) != 1 || failed != nil {
		return fmt.Sprintf("applied: %+v, %v", done, failed)
	}
	return ""
}
