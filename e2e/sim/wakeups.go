package sim

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// readWakes reads a page of wake-ups, as the driver of a region does.
func (s *shardNode) readWakes(o wakeup.Read) {
	var page journal.WakesPage
	incarnation := s.p.incarnation
	s.w.journal.read(s.p.host, func() {
		page = s.w.journal.ledger.Wakes(s.w.storeClock(), o.WakesRequest)
		shorten(s.w, &page, shardOfWake)
	}, func(ok bool) {
		if s.p.incarnation != incarnation {
			return
		}
		s.p.post(func() {
			s.stepShard(wakeup.Page{Number: o.Number, Remembered: o.Remembered, WakesPage: page, Err: lost(ok)})
		})
	})
}

// clock is the right time on the wall.
func (w *World) clock() time.Time { return clockStart.Add(nanos(w.now)) }

// storeClock is the clock of the journal's store, which decides when reminders are due. In the harsh
// climate it is set forth and back, by up to an hour.
func (w *World) storeClock() time.Time { return w.clock().Add(nanos(w.storeError())) }

// storeStep is the time at which the clock of the store was set, and its error since then.
type storeStep struct{ at, wrong int64 }

func (w *World) storeError() int64 {
	if n := len(w.storeSteps); n > 0 {
		return w.storeSteps[n-1].wrong
	}
	return 0
}

// stepStoreClock sets the clock of the store, or sets it right again.
func (w *World) stepStoreClock() {
	d, s := w.dice("store clock"), storeStep{at: w.now}
	if d.chance(0.7) {
		s.wrong = d.between(sec, 3600*sec)
	}
	if d.chance(0.5) {
		s.wrong = -s.wrong
	}
	w.storeSteps = append(w.storeSteps, s)
}

// oldClock is the time that a region may continue by the clock that it has read, while the
// journal does not answer, and that the command of a reminder may wait until its entity is loaded.
const oldClock = (20 + 30) * sec

// latestClock is the latest time by any clock that a region may have gone by.
func (w *World) latestClock(at int64) time.Time {
	wrong := int64(0)
	for i, s := range w.storeSteps {
		if s.at <= at && (i+1 == len(w.storeSteps) || w.storeSteps[i+1].at >= at-oldClock) {
			wrong = max(wrong, s.wrong)
		}
	}
	return clockStart.Add(nanos(at + wrong))
}

// fires returns the command of a reminder, with the number that it adds.
func (s *shardNode) fires(o *turn.Run) *sharding.Envelope {
	w, k, env := s.w, o.Wakeup, *o.Env
	w.mark("reminder: it fires")
	if k.Next > 0 {
		w.mark("reminder: a repeated one fires")
		if k.Missed > 0 {
			w.mark("reminder: it was due several times")
		}
		if k.Next <= k.Due+k.Late.Milliseconds() {
			w.violate("a repeated reminder fires once for all times", "%v: %q of %d ms fires %v late, and is due again at %d", o.Entity, k.Name, k.Due, k.Late, k.Next)
		}
	}
	env.Payload = number(firing(decodeNumber(env.Payload), k.Missed))
	return &env
}

// reminder is one that stands, by the log.
type reminder struct {
	seq, x      uint64
	fired       uint64 // so often
	due, period int64
}

type reminderName struct {
	entity sharding.Entity
	name   string
}

// reminders checks the log: what a reminder does is in the append that says so. It happens once for
// each time at which it is due, or once for several times that have come; not before that, and not
// if the reminder was cancelled or set again. In the end those stand in the journal that stand by
// the log.
func (c *checker) reminders(log []commit) {
	w := c.w
	stands := map[reminderName]*reminder{}
	for _, commit := range log {
		a := commit.Append
		fired := map[uint64]int64{} // how many times were missed, by the number that is added
		for i := range a.Fired {
			id := reminderName{a.Entity, a.Fired[i].Name}
			r := stands[id]
			if r == nil || r.seq != a.Fired[i].Seq || r.fired != a.Fired[i].Number {
				w.violate("a reminder fires once", "%v: %q of record %d fires at %s, and does not stand", a.Entity, id.name, a.Fired[i].Seq, at(commit.at))
				return
			}
			fired[r.x] = c.reminderFires(id, r, a.Fired[i].Next, commit)
			if r.fired++; r.period == 0 {
				delete(stands, id)
			}
			r.due = a.Fired[i].Next
		}
		for _, rec := range a.Records {
			for _, e := range rec.Events {
				x := decodeNumber(e.Payload)
				if x != reminded(x) || ofCoordinators(a.Entity) {
					continue
				}
				if times, ok := fired[firing(x&(1<<40-1), 0)]; !ok || times != missed(x) {
					w.violate("a reminder fires once", "%v: the effect of a reminder, %x, without its end, or with another number of missed times than %d, at %s", a.Entity, x, times, at(commit.at))
				}
			}
			c.setReminders(stands, a.Entity, &rec)
		}
	}
	rows := w.allReminders()
	for i := range rows {
		id := reminderName{rows[i].Entity, rows[i].Name}
		if r := stands[id]; r == nil || r.seq != rows[i].Seq || r.fired != rows[i].Number || r.due != rows[i].Due {
			w.violate("a reminder is not lost", "%v: by the log %+v stands, and in the journal there is %+v", id, r, rows[i])
		}
	}
	if len(rows) != len(stands) {
		w.violate("a reminder is not lost", "%d reminders stand by the log, and %d in the journal", len(stands), len(rows))
	}
}

// reminderFires checks when a reminder fires and when it is due again: at the next of its times,
// counted from the one before. It returns for how many times it does not fire.
func (c *checker) reminderFires(id reminderName, r *reminder, next int64, commit commit) int64 {
	w, times := c.w, int64(1)
	if r.period > 0 {
		times = (next - r.due) / r.period
	}
	if r.period == 0 && next != 0 || r.period > 0 && (times < 1 || r.due+times*r.period != next) {
		w.violate("a reminder keeps its period", "%v: %q of %d ms, due at %d, is due again at %d", id.entity, id.name, r.period, r.due, next)
	}
	last := r.due + (times-1)*r.period                                     // of the times that it fires for
	if early := last - w.latestClock(commit.at).UnixMilli(); early > 100 { // clocks drift between two pages
		w.violate("a reminder is not early", "%v: %q fires %d ms before it is due, at %s", id.entity, id.name, early, at(commit.at))
	}
	return times - 1
}

// setReminders notes what a record sets, cancels and deletes.
func (c *checker) setReminders(stands map[reminderName]*reminder, e sharding.Entity, rec *sharding.Record) {
	if rec.Delete {
		for id := range stands { // order-free: all of the entity are removed
			if id.entity == e {
				c.w.mark("delete: a reminder goes with it")
				delete(stands, id)
			}
		}
	}
	for _, k := range rec.Wakes {
		id := reminderName{e, k.Name}
		switch was := stands[id]; {
		case k.Kind != sharding.ReminderWake:
		case k.Due == 0:
			if was != nil {
				c.w.mark("reminder: it is cancelled")
			}
			delete(stands, id)
		default:
			if was != nil {
				c.w.mark("reminder: it is set again")
			}
			stands[id] = &reminder{seq: rec.Seq, x: decodeNumber(k.Input.Payload), due: k.Due, period: k.Period}
		}
	}
}

// allReminders are those that stand in the journal.
func (w *World) allReminders() []journal.WakeEntry {
	req := journal.WakesRequest{Limit: 1 << 20}
	for _, t := range types {
		for i := range t.Shards {
			req.Shards = append(req.Shards, journal.ShardPosition{Shard: sharding.ShardID{Type: t.Type, Index: i}})
		}
	}
	return w.journal.ledger.Wakes(w.storeClock(), req).Entries
}

// repeats is how late a repeated reminder may be when the world is looked at: it is due again and again.
const repeats = 2 * sec

// unfired names a reminder that is due and stands though nothing in its way is damaged, or
// returns "".
func (w *World) unfired() string {
	now := w.storeClock().UnixMilli()
	for _, r := range w.allReminders() {
		late := now - r.Due
		if r.Period > 0 {
			late -= repeats / ms
		}
		if late >= 0 && w.intact(r.Entity) {
			return fmt.Sprintf("reminder %q of %v has been due for %d ms", r.Name, r.Entity, now-r.Due)
		}
	}
	return ""
}
