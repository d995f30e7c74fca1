package entity_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// askCount counts the asks of a turn.
type askCount struct{ readOnly, other int }

func (a *askCount) Ask(_ context.Context, ask turn.Ask) sharding.Reply {
	if ask.ReadOnly {
		a.readOnly++
	} else {
		a.other++
	}
	return sharding.Reply{Outcome: sharding.Executed, Payload: []byte("1")}
}

// TestBrokenTurn: after an effect that is impossible, a handler changes nothing more, at other entities neither, and its
// failure has the first reason, even if the handler then panics.
func TestBrokenTurn(t *testing.T) {
	change := entity.Command[int, int]("Else", "Change")
	ask := entity.Command[int, int]("Else", "Look", entity.ReadOnly())
	for name, panics := range map[string]bool{"returns": false, "panics": true} {
		var told error
		def := entity.Define("Box", createBox, entity.On(grow, func(b *box, ctx *entity.Ctx, in input) (int64, error) {
			ctx.Persist(grown{1})
			ctx.Persist(input{}) // not an event
			ctx.Persist(grown{1})
			if _, err := ask.Ask(ctx, "x", 1); err != nil {
				t.Errorf("%s: a read-only ask: %v", name, err)
			}
			_, told = change.Ask(ctx, "x", 1)
			if panics {
				panic("it relied on the event")
			}
			return b.N, nil
		}), entity.Event("grown", func(b *box, e grown) { b.N += e.By }))
		i, asks := instanceOf(t, def), &askCount{}
		done, failed := i.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Grow"}}, asks)
		if done.Reply.Outcome != sharding.NotApplied || !done.Spoiled || len(done.Events) > 0 || failed == nil || !strings.Contains(failed.Error(), "unknown event type") {
			t.Errorf("%s: %+v, %v", name, done, failed)
		}
		if n := i.State().(*box).N; n != 1 || asks.other > 0 || asks.readOnly != 1 {
			t.Errorf("%s: the state is %d, and it has asked %+v", name, n, asks)
		}
		if entity.OutcomeOf(told) != entity.NotApplied || !strings.Contains(told.Error(), "the turn has failed already") {
			t.Errorf("%s: the ask: %v", name, told)
		}
	}
}
