package server

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

type alarmClock struct{ Rung []string }

type rang struct{ What string }

type alarmInput struct {
	AfterMs, EveryMs int
	Name             string
}

var (
	alarmSet    = entity.Command[alarmInput, string]("Tally", "Set")
	alarmRing   = entity.Command[string, string]("Tally", "Ring", entity.Stored())
	alarmCancel = entity.Command[string, string]("Tally", "Cancel")
	alarmRung   = entity.Command[string, []string]("Tally", "Rung", entity.ReadOnly())
)

func (a *alarmClock) set(ctx *entity.Ctx, in alarmInput) (string, error) {
	if in.EveryMs > 0 {
		alarmRing.RemindEvery(ctx, time.Duration(in.EveryMs)*time.Millisecond, in.Name, in.Name)
	} else {
		alarmRing.RemindAfter(ctx, time.Duration(in.AfterMs)*time.Millisecond, in.Name, in.Name)
	}
	return "set", nil
}

// alarmTrouble makes ringing fail. Tests of this file do not run in parallel.
var alarmTrouble atomic.Bool

func (a *alarmClock) ring(ctx *entity.Ctx, what string) (string, error) {
	r, ok := ctx.Reminder()
	if !ok || r.Name != what {
		return "", fmt.Errorf("reminder %v %t runs Ring(%q)", r, ok, what)
	}
	if alarmTrouble.Load() {
		return "", errors.New("no luck")
	}
	ctx.Persist(rang{fmt.Sprintf("%s missed %d", what, r.Missed)})
	return "rung", nil
}

func (a *alarmClock) cancel(ctx *entity.Ctx, name string) (string, error) {
	ctx.CancelReminder(name)
	return "cancelled", nil
}

func (a *alarmClock) rung(*entity.Ctx, string) ([]string, error) { return a.Rung, nil }

func alarmClocks() entity.Definition {
	return entity.Define("Tally", func(string) *alarmClock { return &alarmClock{} },
		entity.On(alarmSet, (*alarmClock).set), entity.On(alarmRing, (*alarmClock).ring),
		entity.On(alarmCancel, (*alarmClock).cancel), entity.On(alarmRung, (*alarmClock).rung),
		entity.Event("rang", func(a *alarmClock, event rang) { a.Rung = append(a.Rung, event.What) }),
		entity.With[alarmClock](entity.Shards(1), entity.PassivateAfter(time.Minute)),
	)
}

// rungNow returns what the entity says has rung.
func (d *driven) rungNow() string { return string(d.answer(d.send("Rung", `""`)).Reply.Payload) }

// TestReminderFires: once, at its time, though the entity was passivated meanwhile.
func TestReminderFires(t *testing.T) {
	drive(t, alarmClocks(), func(t *testing.T, d *driven) {
		d.answer(d.send("Set", `{"AfterMs":300000,"EveryMs":0,"Name":"tea"}`))
		time.Sleep(299 * time.Second)
		if got := d.rungNow(); got != "null" {
			t.Fatalf("before its time: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := d.rungNow(); got != `["tea missed 0"]` {
			t.Fatalf("after its time: %s", got)
		}
		time.Sleep(time.Hour)
		if got := d.rungNow(); got != `["tea missed 0"]` {
			t.Fatalf("an hour later: %s", got)
		}
		d.store.Inspect(func(l *memory.Ledger) {
			if n := len(l.Log()); n != 2 {
				t.Errorf("%d appends, want one that sets and one that fires: %+v", n, l.Log())
			}
		})
	})
}

// TestReminderByTheClockOfTheStore: RemindAfter and RemindEvery wait for the given time, however fast or slow the
// store's clock is compared with the clock of the region's machine.
func TestReminderByTheClockOfTheStore(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Minute, -90 * time.Second} {
		for _, input := range []string{`{"AfterMs":60000,"EveryMs":0,"Name":"tea"}`, `{"AfterMs":0,"EveryMs":60000,"Name":"tea"}`} {
			driveBy(t, ahead, alarmClocks(), func(t *testing.T, d *driven) {
				d.answer(d.send("Set", input))
				time.Sleep(59 * time.Second)
				if got := d.rungNow(); got != "null" {
					t.Errorf("%s with the store %s ahead, after 59 s: %s", input, ahead, got)
				}
				time.Sleep(2 * time.Second)
				if got := d.rungNow(); got != `["tea missed 0"]` {
					t.Errorf("%s with the store %s ahead, after 61 s: %s", input, ahead, got)
				}
			})
		}
	}
}

// TestReminderRepeats: with failures between, which are repeated; and one cancel ends it.
func TestReminderRepeats(t *testing.T) {
	// It is due after 10, 20, 30, … s, and fails until 34 s. It is tried again between 36 s and
	// 42 s, which is for what was due after 10 s.
	const want = `["tick missed 2","tick missed 0","tick missed 0","tick missed 0","tick missed 0","tick missed 0","tick missed 0"]`
	drive(t, alarmClocks(), func(t *testing.T, d *driven) {
		alarmTrouble.Store(true)
		defer alarmTrouble.Store(false)
		d.answer(d.send("Set", `{"AfterMs":0,"EveryMs":10000,"Name":"tick"}`))
		time.Sleep(34 * time.Second)
		if got := d.rungNow(); got != "null" {
			t.Fatalf("while it fails: %s", got)
		}
		alarmTrouble.Store(false)
		time.Sleep(60 * time.Second)
		got := d.rungNow()
		if got != want {
			t.Errorf("it fired %s, want %s", got, want)
		}
		d.answer(d.send("Cancel", `"tick"`))
		time.Sleep(time.Minute)
		if after := d.rungNow(); after != got {
			t.Errorf("after it was cancelled: %s", after)
		}
	})
}

// TestReminderOutlivesItsOwner: another claim of the shard finds it. Reminders that are due
// meanwhile fire at once.
func TestReminderOutlivesItsOwner(t *testing.T) {
	drive(t, alarmClocks(), func(t *testing.T, d *driven) {
		d.answer(d.send("Set", `{"AfterMs":60000,"EveryMs":0,"Name":"tea"}`))
		d.Put(region.Received{From: "c:1", Msg: control.HandOff{Term: 1, Shard: drivenShard, Epoch: drivenEpoch}})
		time.Sleep(2 * time.Minute)
		d.store.Inspect(func(l *memory.Ledger) {
			if n := len(l.Log()); n != 1 {
				t.Fatalf("it fired though no region owns the shard: %+v", l.Log())
			}
		})
		d.Put(region.Received{From: "c:1", Msg: control.HostShard{Term: 1, Shard: drivenShard, Epoch: drivenEpoch + 1}})
		time.Sleep(time.Second)
		synctest.Wait()
		d.store.Inspect(func(l *memory.Ledger) {
			log := l.Log()
			if n := len(log); n != 2 || len(log[1].Append.Fired) != 1 || log[1].Append.Records[0].Command != "" {
				t.Fatalf("it did not fire after the shard was claimed again: %+v", log)
			}
		})
	})
}

// TestReminderOutlivesTheProcess: it is set in one process and fires once in the next, for an
// entity without callers there.
func TestReminderOutlivesTheProcess(t *testing.T) {
	f := newFake(t)
	file := t.TempDir() + "/journal.db"
	r := start(t, f, "sqlite:"+file, nil)
	e := r.host(1)
	g := r.dial()
	g.want(g.keyed(e, "a", "AddLater", "k1", "300"), sharding.Executed, `"later"`)
	g.want(g.keyed(e, "b", "AddLater", "k1", "3600000"), sharding.Executed, `"later"`)
	g.client.Close()
	r.end()

	r = start(t, f, "sqlite:"+file, nil)
	e = r.host(11)
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	count := func(query string) (n int) {
		if err := db.QueryRow(query).Scan(&n); err != nil {
			return -1
		}
		return n
	}
	await(t, "the reminder has fired", func() bool { return count("SELECT count(*) FROM wake") == 1 })
	for _, want := range []string{
		`roost_region_reminders_fired_total{roost_cluster="dev"} 1` + "\n", `roost_region_reminders_held{roost_cluster="dev"} 0` + "\n", `roost_region_reminders_overdue_seconds{roost_cluster="dev"} 0` + "\n", `roost_region_purges_failing{roost_cluster="dev"} 0` + "\n",
		`roost_region_reminders_failing{roost_cluster="dev",roost_entity_type="Counter"} 0` + "\n", `roost_region_sends_failing{roost_cluster="dev",roost_entity_type="Counter"} 0` + "\n",
		`roost_region_remembered_failing{roost_cluster="dev",roost_entity_type="Counter"} 0` + "\n",
		`roost_region_reminders_lateness_seconds_count{roost_cluster="dev",roost_entity_type="Counter"} 1` + "\n",
	} {
		await(t, want, func() bool { return strings.Contains(r.get("/metrics"), want) })
	}
	g = r.dial()
	g.want(g.answer(g.send(e, "a", "Get", "")), sharding.Executed, "7")
	g.want(g.answer(g.send(e, "b", "Get", "")), sharding.Executed, "0")
	if n := count("SELECT count(*) FROM record"); n < 3 {
		t.Errorf("%d records, want two that set and one that fired", n)
	}
	g.client.Close()
	r.end()
}
