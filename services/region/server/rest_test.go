package server

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// TestRest: while nothing happens, ticks come rarely; alarms of entities are on time all the same, and when
// something happens, ticks come often at once.
func TestRest(t *testing.T) {
	const alarm = 1330 * time.Millisecond
	withCores(t, func(t *testing.T, cores int) {
		var rang time.Time
		pass := entity.Command[struct{}, int]("Door", "Pass")
		s := runTypes(t, RunnerConfig{
			Log: slog.New(slog.DiscardHandler), Core: func(c *region.Config) { c.ShardCores, c.LoadInterval = cores, 0 },
		}, entity.DefineVolatile("Door", func(string) *door { return &door{} },
			entity.On(entity.Command[struct{}, int]("Door", "Knock"), func(_ *door, ctx *entity.Ctx, _ struct{}) (int, error) {
				pass.After(ctx, alarm, "alarm", struct{}{})
				return 0, nil
			}),
			entity.On(pass, func(*door, *entity.Ctx, struct{}) (int, error) {
				rang = time.Now()
				return 0, nil
			})).Shards(4))
		ticks := func(length time.Duration) (n int) {
			synctest.Wait()
			last := s.ticked
			for end := time.Now().Add(length); time.Now().Before(end); {
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if s.ticked != last {
					n, last = n+1, s.ticked
				}
			}
			return n
		}
		time.Sleep(time.Second)                                                                  // until the shards are served, and nothing happens any more
		if n, want := ticks(time.Second), int(time.Second/restEvery); n < want-1 || n > 2*want { // something small may happen
			t.Errorf("%d ticks in a second in which nothing happens, want about %d", n, want)
		}
		time.Sleep(restEvery / 2)
		a, began := &answers{got: map[uint64]link.Answer{}}, time.Now()
		s.Submit(a, []link.Command{knock(1, "a", "Knock")})
		synctest.Wait()
		a.want(t, 1)
		if late := s.ticked.Sub(began); late < 0 || late > tickEvery {
			t.Errorf("a tick %v after a command, want one within %v", late, tickEvery)
		}
		if n, want := ticks(restAfter), int(restAfter/tickEvery); n < want-1 {
			t.Errorf("%d ticks in the %v after a command, want %d", n, restAfter, want)
		}
		ticks(alarm)
		if late := rang.Sub(began.Add(alarm)); late < 0 || late > tickEvery {
			t.Errorf("an alarm is %v late", late)
		}
	})
}
