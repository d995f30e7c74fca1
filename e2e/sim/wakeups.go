package sim

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
)

// readWakes reads a page of wake-ups, as the driver of a region does.
func (n *shardNode) readWakes(o wakeup.Read) {
	req := journal.WakesRequest{Until: o.Until, Limit: o.Limit}
	for _, p := range o.Shards {
		req.Shards = append(req.Shards, journal.ShardPosition{Shard: p.Shard, After: journal.WakePosition{
			Due: p.Due, Entity: p.Entity, Kind: p.Kind, Name: p.Name,
		}})
	}
	out := wakeup.Page{Number: o.Number, Remembered: o.Remembered}
	gen := n.p.gen
	n.w.journal.read(n.p.host, func() {
		page := n.w.journal.ledger.Wakes(n.w.clock(), req)
		out.Now, out.More = page.Now, page.More
		for i := range page.Rows {
			w := &page.Rows[i]
			r := wakeup.Row{Shard: w.Shard, Entity: w.Entity, WakeRef: w.WakeRef, Due: w.Due, Period: w.Period, Input: w.Input}
			if w.Err != nil {
				r.Err = w.Err.Error()
			}
			out.Rows = append(out.Rows, r)
		}
	}, func(ok bool) {
		if n.p.gen != gen {
			return
		}
		if !ok {
			out = wakeup.Page{Number: o.Number, Remembered: o.Remembered, Err: errLost.Error()}
		}
		n.p.post(func() { n.stepShard(region.WakesRead{Page: out}) })
	})
}

// clock is that of the journal's store, on the wall, by which entities set reminders too.
func (w *World) clock() time.Time { return clockStart.Add(nanos(w.now)) }

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
			if early := r.due - clockStart.Add(nanos(commit.at)).UnixMilli(); early > 100 { // clocks drift between two pages
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
				if k.Kind != sharding.TimerWake {
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
	req.Limit, req.Until = 100, w.clock().UnixMilli()
	s := w.journal
	for _, r := range s.ledger.Wakes(w.clock(), req).Rows {
		if !s.loadDamaged(r.Entity) && !s.writeDamaged(r.Entity) && !s.fenceDamaged(r.Shard) {
			return fmt.Sprintf("reminder %q of %v has been due for %d ms", r.Name, r.Entity, req.Until-r.Due)
		}
	}
	return ""
}
