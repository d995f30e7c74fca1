package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestSendAgeLimit: the largest age of a send by its own option follows from the age of remembered keys.
func TestSendAgeLimit(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Stored.DedupeAge = 50 * time.Hour
	if core := cfg.core(); core.Sends.AgeLimit != 49*time.Hour || core.Turn.KeyAge != 49*time.Hour {
		t.Errorf("sends may have %s, turns may send with %s", core.Sends.AgeLimit, core.Turn.KeyAge)
	}
}

// TestSendOptions: a region delivers a send by the options of its command.
func TestSendOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := entity.Command[string, int]("Clerk", "Slow", entity.Stored(), entity.Timeout(time.Second), entity.Retry(20*time.Millisecond, 20*time.Millisecond), entity.MaxAge(4*time.Second))
		var began []time.Time // guarded by the bubble, and the turns of one entity
		do := clerksAt(t, entity.Define("Clerk", func(string) *clerk { return &clerk{} },
			entity.On(entity.Command[string, int]("Clerk", "Write"), func(_ *clerk, ctx *entity.Ctx, to string) (int, error) {
				slow.Send(ctx, to, "")
				return 0, nil
			}),
			entity.On(slow, func(_ *clerk, ctx *entity.Ctx, _ string) (int, error) {
				if until, ok := ctx.Deadline(); !ok || time.Until(until) > time.Second {
					t.Errorf("an attempt has until %v, want a second", until)
				}
				began = append(began, time.Now())
				<-ctx.Done()
				return 0, errors.New("too slow")
			}),
			entity.Event("took", func(c *clerk, _ took) { c.Took++ }),
			entity.With[clerk](entity.Shards(4)),
		))
		if got := do("ann", "Write", `"bob"`); got != "0" {
			t.Fatalf("write: %s", got)
		}
		if n := len(began); n < 3 || n > 5 {
			t.Errorf("%d attempts of a second within 4 s, want 3 to 5", n)
		}
		if got := do("ann", sharding.SendDropCommand, `{"record":1,"place":0}`); got != "" {
			t.Errorf("the dead letter is dropped: %q", got)
		}
	})
}
