package sim

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/reads"
)

// readWakes reads a page of wake-ups, as the driver of a region does.
func (n *shardNode) readWakes(o wakeup.Read) {
	var page journal.WakesPage
	gen := n.p.gen
	n.w.journal.read(n.p.host, func() { page = n.w.journal.ledger.Wakes(n.w.storeClock(), reads.Wakes(o)) }, func(ok bool) {
		if n.p.gen != gen {
			return
		}
		n.p.post(func() { n.stepShard(region.WakesRead{Page: reads.WakesPage(o, page, lost(ok))}) })
	})
}

// clock is the right time on the wall.
func (w *World) clock() time.Time { return clockStart.Add(nanos(w.now)) }

// storeClock is the clock of the journal's store, by which reminders are set and due. In the harsh
// climate somebody sets it forth and back, by up to an hour.
func (w *World) storeClock() time.Time { return w.clock().Add(nanos(w.storeError())) }

// storeStep is when the clock of the store was set, and by how much it is wrong since then.
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

// oldClock is how long a region may go on by the clock that it has read, while the journal does
// not answer.
const oldClock = 20 * sec

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

// reminder is one that stands, by the log.
type reminder struct {
	seq, x uint64
	due    int64
}

// reminders checks the log: each reminder has its effect at most once, in the append that ends
// it, not before its time, and no other append has that effect.
func (c *checker) reminders(log []commit) {
	w := c.w
	type name struct {
		entity sharding.Entity
		name   string
	}
	stands := map[name]reminder{}
	for _, commit := range log {
		a := commit.Append
		fired := map[uint64]bool{}
		for _, f := range a.Fired {
			id := name{a.Entity, f.Name}
			r, ok := stands[id]
			if !ok || r.seq != f.Seq || f.Number != 0 {
				w.violate("a reminder fires once", "%v: %q of record %d fires at %s, and does not stand", a.Entity, f.Name, f.Seq, at(commit.at))
			}
			if early := r.due - w.latestClock(commit.at).UnixMilli(); early > 100 { // clocks drift between two pages
				w.violate("a reminder is not early", "%v: %q fires %d ms before it is due, at %s", a.Entity, f.Name, early, at(commit.at))
			}
			fired[r.x] = true
			delete(stands, id)
		}
		for _, rec := range a.Records {
			for _, e := range rec.Events {
				if x := decodeNumber(e.Payload); x == reminded(x) && a.Entity != factEntity && !fired[x] {
					w.violate("a reminder fires once", "%v: the effect of a reminder, %x, without its end, at %s", a.Entity, x, at(commit.at))
				}
			}
			if rec.Delete {
				for id := range stands { // order-free: all of the entity are removed
					if id.entity == a.Entity {
						w.mark("delete: a reminder goes with it")
						delete(stands, id)
					}
				}
			}
			for _, k := range rec.Wakes {
				if k.Kind != sharding.ReminderWake {
					continue
				}
				if k.Due == 0 {
					delete(stands, name{a.Entity, k.Name})
					continue
				}
				stands[name{a.Entity, k.Name}] = reminder{seq: rec.Seq, x: decodeNumber(k.Input.Payload), due: k.Due}
			}
		}
	}
}

// unfired names a reminder that is due and stands though nothing in its way is damaged, or
// returns "".
func (w *World) unfired() string {
	var req journal.WakesRequest
	for _, t := range types {
		for i := range t.Shards {
			req.Shards = append(req.Shards, journal.ShardPosition{Shard: sharding.ShardID{Type: t.Type, Index: i}})
		}
	}
	req.Limit, req.Until = 100, w.storeClock().UnixMilli()
	s := w.journal
	for _, r := range s.ledger.Wakes(w.storeClock(), req).Rows {
		if !s.loadDamaged(r.Entity) && !s.writeDamaged(r.Entity) && !s.fenceDamaged(r.Shard) {
			return fmt.Sprintf("reminder %q of %v has been due for %d ms", r.Name, r.Entity, req.Until-r.Due)
		}
	}
	return ""
}
