package entity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// brittle cannot apply every event.
type brittle struct{ names map[string]int }

type named struct{ Name string }

func (b *brittle) Apply(ev any) {
	if ev.(named).Name == "bad" {
		panic("evil Apply")
	}
	b.names = map[string]int{ev.(named).Name: 1}
}

func brittles() entity.Definition {
	persist := func(ctx *entity.Ctx, name string) (err error) {
		defer func() { _ = recover() }()
		return ctx.Persist(named{name})
	}
	return entity.Define("Brittle", func(string) *brittle { return &brittle{} },
		entity.On(entity.Command[string, int]("Brittle", "Recover"), func(_ *brittle, ctx *entity.Ctx, name string) (int, error) {
			return 1, persist(ctx, name)
		}),
		entity.On(entity.Command[string, int]("Brittle", "Refuse"), func(_ *brittle, ctx *entity.Ctx, name string) (int, error) {
			_ = persist(ctx, name)
			return 1, entity.Errorf(entity.NotFound, "no")
		}),
		entity.On(entity.Command[string, int]("Brittle", "Ignore"), func(_ *brittle, ctx *entity.Ctx, _ string) (int, error) {
			_ = ctx.Persist(grown{})
			return 1, nil
		})).Events(named{})
}

// TestApplyBreaksTheTurn: an event that Apply did not take is never stored, and the caller is not told of a success,
// whatever the handler does. The same holds for an error of Persist that the handler ignores.
func TestApplyBreaksTheTurn(t *testing.T) {
	if why := unapplied(t); why != "" {
		t.Error(why)
	}
}

func unapplied(t *testing.T) string {
	run := func(command, name string) (turn.TurnDone, error) {
		i, err := entity.NewInstance(brittles(), "b")
		if err != nil {
			t.Fatal(err)
		}
		return i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: command, Payload: fmt.Appendf(nil, "%q", name)}}, nil)
	}
	done, failed := run("Recover", "bad")
	var p *entity.Panic
	if done.Reply.Outcome != sharding.Rejected || !done.Spoiled || len(done.Events) > 0 || !errors.As(failed, &p) || !strings.Contains(failed.Error(), "Apply of event named: evil Apply") || !strings.Contains(p.Stack, "brittle") {
		return fmt.Sprintf("recovered: %+v, %v", done, failed)
	}
	if done, failed = run("Refuse", "bad"); done.Reply.Code != entity.NotFound || !done.Spoiled || len(done.Events) > 0 {
		return fmt.Sprintf("refused: %+v, %v", done, failed)
	}
	if done, failed = run("Ignore", ""); done.Reply.Outcome != sharding.Rejected || !errors.Is(failed, entity.ErrUnknownEvent) {
		return fmt.Sprintf("ignored: %+v, %v", done, failed)
	}
	if done, failed = run("Recover", "good"); done.Reply.Outcome != sharding.OK || len(done.Events) != 1 || failed != nil {
		return fmt.Sprintf("applied: %+v, %v", done, failed)
	}
	return ""
}
