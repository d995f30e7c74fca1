package server

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// waker is a durable entity without events.
type waker struct{}

// TestRest: while nothing happens, ticks come rarely; alarms and reminders of entities are on time all the same, and
// when something happens, ticks come often at once.
func TestRest(t *testing.T) {
	const alarm = 1330 * time.Millisecond
	rest := region.NewRest()
	withCores(t, func(t *testing.T, cores int) {
		var rang, reminded time.Time
		ring := entity.Command[struct{}, int]("Waker", "Ring", entity.Stored())
		pass := entity.Command[struct{}, int]("Door", "Pass")
		s := runTypes(t, RunnerConfig{
			Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) { c.ShardCores, c.LoadInterval = cores, 0 }),
		}, entity.Define("Door", func(string) *door { return &door{} },
			entity.On(entity.Command[struct{}, int]("Door", "Knock"), func(_ *door, ctx *entity.Ctx, _ struct{}) (int, error) {
				pass.After(ctx, alarm, "alarm", struct{}{})
				return 0, nil
			}),
			entity.On(pass, func(*door, *entity.Ctx, struct{}) (int, error) {
				rang = time.Now()
				return 0, nil
			}),
			entity.With[door](entity.Volatile(), entity.Shards(4)),
		), entity.Define("Waker", func(string) *waker { return &waker{} },
			entity.On(entity.Command[struct{}, int]("Waker", "Set"), func(_ *waker, ctx *entity.Ctx, _ struct{}) (int, error) {
				ring.Remind(ctx, ctx.Now().Add(alarm), "ring", struct{}{})
				return 0, nil
			}),
			entity.On(ring, func(*waker, *entity.Ctx, struct{}) (int, error) {
				reminded = time.Now()
				return 0, nil
			}),
			entity.With[waker](entity.Shards(4)),
		))
		ticks := func(length time.Duration) int {
			before := s.ticks.Load()
			time.Sleep(length)
			synctest.Wait()
			return int(s.ticks.Load() - before)
		}
		time.Sleep(time.Second)                                                                   // until the shards are served, and nothing happens any more
		if n, want := ticks(time.Second), int(time.Second/rest.Every); n < want-1 || n > 2*want { // something small may happen
			t.Errorf("%d ticks in a second in which nothing happens, want about %d", n, want)
		}
		time.Sleep(rest.Every / 2)
		a, began, before := &answers{got: map[uint64]link.Answer{}}, time.Now(), s.ticks.Load()
		s.Submit(a, []link.Command{knock(1, "a", "Knock")})
		synctest.Wait()
		a.want(t, 1)
		if ticks(tickEvery); s.ticks.Load() == before {
			t.Errorf("no tick within %v after a command", tickEvery)
		}
		if n, want := ticks(rest.After), int(rest.After/tickEvery); n < want-1 {
			t.Errorf("%d ticks in the %v after a command, want %d", n, rest.After, want)
		}
		ticks(alarm)
		if late := rang.Sub(began.Add(alarm)); late < 0 || late > tickEvery {
			t.Errorf("an alarm is %v late", late)
		}
		set := knock(2, "b", "Set")
		set.Envelope.Entity.Type = "Waker"
		for n := range time.Duration(4) { // at other moments between two ticks
			time.Sleep(n * rest.Every / 4)
			set.Number, set.Envelope.ID = uint64(2+n), sharding.CommandID(fmt.Sprint("b", n))
			began = time.Now()
			s.Submit(a, []link.Command{set})
			ticks(2 * alarm)
			if late := reminded.Sub(began.Add(alarm)); late < 0 || late > 2*tickEvery {
				t.Errorf("a reminder is %v late", late)
			}
		}
	})
}

// narrow is a connection with room for the refusal of a command, but not for its reply.
type narrow struct {
	answers
	unsent int
}

func (n *narrow) Unsent() int { return n.unsent }

// TestNoRestWhileCommandsWait: a command that waits for room is refused in time although nothing else happens.
func TestNoRestWhileCommandsWait(t *testing.T) {
	const timeout, patience = 160 * time.Millisecond, 80 * time.Millisecond
	withCores(t, func(t *testing.T, cores int) {
		limits := replies.DefaultConfig()
		s := runTypes(t, RunnerConfig{
			Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) { c.ShardCores, c.LoadInterval = cores, 0 }),
		}, entity.Define("Door", func(string) *door { return &door{} },
			entity.On(entity.Command[struct{}, int]("Door", "Knock"), func(*door, *entity.Ctx, struct{}) (int, error) { return 0, nil }),
			entity.With[door](entity.Volatile(), entity.Shards(4)),
		))
		to := &narrow{answers{got: map[uint64]link.Answer{}}, int(limits.Connection) - limits.Unknown/2}
		for n := range uint64(10) {
			time.Sleep(time.Second + time.Duration(n)*tickEvery) // at other moments between two ticks
			began := time.Now()
			c := knock(n, "a", "Knock")
			c.Envelope.Deadline = began.Add(timeout)
			s.Submit(to, []link.Command{c})
			for to.count() == int(n) {
				time.Sleep(time.Millisecond)
			}
			if a := to.got[n].Reply; a.Code != sharding.ResourceExhausted {
				t.Fatalf("without room: %+v", a)
			}
			if took := time.Since(began); took < patience || took > patience+2*tickEvery {
				t.Errorf("refused after %v, want %v", took, patience)
			}
		}
	})
}
