package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestDamageLog: each damaged entity counts once, for an hour, and there are never more than a region remembers.
func TestDamageLog(t *testing.T) {
	l, now := &damageLog{}, time.Unix(1e6, 0)
	want := func(at time.Duration, n int, last string) {
		t.Helper()
		got, names := l.list(now.Add(at))
		if name := append(names, "")[0]; got != n || name != last || len(names) > shownDamage {
			t.Errorf("after %s: %d, the newest %q; want %d, %q", at, got, names, n, last)
		}
	}
	entity := func(id string) journal.Damaged {
		return journal.Damaged{Shard: sharding.ShardID{Type: "T", Index: 3}, Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(id)}}
	}
	want(0, 0, "")
	l.add(now, journal.Damaged{Shard: sharding.ShardID{Type: "T", Index: 3}})
	want(0, 1, "shard T/3")
	l.add(now.Add(time.Minute), entity("a"))
	l.add(now.Add(2*time.Minute), entity("a"))
	want(2*time.Minute, 2, "T/a")
	want(61*time.Minute, 1, "T/a")
	want(63*time.Minute, 0, "")
	for i := range maxDamage + 10 {
		l.add(now, entity(fmt.Sprint(i)))
	}
	want(0, maxDamage, "T/0") // if two have one time, the first by name
	l.repaired(sharding.Entity{Type: "T", ID: "0"})
	want(0, maxDamage-1, "T/1")
}

// TestNotAlive: an entity whose stored event its reducer does not take any more is listed for operators with the record, until
// it lives again.
func TestNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		s := runTypes(t, RunnerConfig{Log: slog.New(slog.DiscardHandler)}, entity.Define("Door", func(string) *judged { return &judged{broken: &broken} },
			entity.On(entity.Command[struct{}, int]("Door", "Knock"), func(_ *judged, ctx *entity.Ctx, _ struct{}) (int, error) {
				ctx.Passivate()
				ctx.Persist(grown{})
				return 0, nil
			}),
			entity.Event("grown", func(j *judged, _ grown) {
				if *j.broken {
					panic("no")
				}
			}),
			entity.With[judged](entity.Shards(4)),
		))
		a := &answers{got: map[uint64]link.Answer{}}
		for number := range uint64(3) {
			c := knock(number, "a", "Knock")
			c.Envelope.ID = sharding.CommandID(fmt.Sprint(number))
			broken = number == 1
			s.Submit(a, []link.Command{c})
			synctest.Wait()
			n, newest := s.notAlive.list(time.Now())
			if refused := a.got[number].Reply.Outcome != sharding.Executed; refused != broken || (n == 1) != broken {
				t.Errorf("command %d: %+v, and %d are listed: %v", number, a.got[number].Reply, n, newest)
			}
			if broken && !strings.Contains(newest[0], "Door/a: record 1, event grown of version 1: reducer of event grown of type Door panicked: no") {
				t.Errorf("listed: %q", newest)
			}
		}
	})
}

// judged cannot apply events while it is broken.
type judged struct{ broken *bool }
