package wakeup

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
)

// scan begins a read of the shards that are due to be read, and have no wake-ups in memory.
func (s *Starter) scan() {
	number, shards := s.sweep.Begin(s.now, func(sh *startShard) due.Want {
		switch {
		case len(sh.page) > 0: // a sweep that is to begin again waits for the end of the sweep before
			sh.ReadAt, sh.next = time.Time{}, true
			return due.Skip
		case s.wakes+(s.sweep.Pending()+1)*s.cfg.Page > s.cfg.Wakes:
			return due.Room
		}
		return due.Take
	})
	if len(shards) == 0 {
		return
	}
	r := Read{Number: number, Remembered: true, WakesRequest: journal.WakesRequest{Until: 1, Limit: s.cfg.Page}}
	for _, sh := range shards {
		r.Shards = append(r.Shards, journal.ShardPosition{Shard: sh.ID, After: sh.after})
	}
	s.out.Reads = append(s.out.Reads, r)
}

// page handles the answer to a read.
func (s *Starter) page(in *Page) {
	for _, p := range s.sweep.Page(s.now, in.Number, &in.WakesPage, in.Err) {
		if p.Shard.Reading = false; !p.Failed {
			s.pageOf(p.Shard, p.Entries, p.More)
		}
	}
}

// pageOf handles the wake-ups of one shard in a page.
func (s *Starter) pageOf(sh *startShard, wakes []journal.WakeEntry, more bool) {
	sh.ReadAt = time.Time{}
	// Invariant: when a shard starts, its remembered entities are brought to life without a command. The most recently
	// active entities come first. The configured rate and limits apply. An entity that cannot be started does not delay
	// the others.
	// Guarded by: `wakeup.Starter` reads the wake-ups of a shard page by page. If a start fails, the Starter tries
	// again after a back-off.
	// Mutants: next-page, activity-order, start-limit, start-rate, restart-back-off
	sh.next = more //mutant:false next-page
	s.sweepAgain(sh)
	if len(wakes) == 0 {
		if sh.next { // the page had no room for wake-ups of this shard
			sh.next = false
			s.sweep.ReadBy(sh, s.now)
		}
		return
	}
	if more {
		sh.after = wakes[len(wakes)-1].Position()
	}
	sh.page = slices.Clone(wakes)
	s.wakes += len(wakes)
	sh.typ.ready.Push(sh)
}

// NextAlarm returns the time at which the starter has something to do, if no input comes earlier. Zero
// means never.
func (s *Starter) NextAlarm() time.Time {
	at := due.Earliest(s.sweep.Alarm(), s.failing.Alarm())
	for _, q := range s.types {
		if s.waits(q) {
			at = due.Earliest(at, s.groupAt(q))
		}
	}
	return at
}

// waits reports whether entities of a type wait only for the time of the next group.
func (s *Starter) waits(q *startType) bool {
	return len(q.ready)+len(q.again) > 0 && q.underWay < s.cfg.Limit
}

// groupAt returns the time at which the next entity of a type may be started.
func (s *Starter) groupAt(q *startType) time.Time {
	at := q.busyTill
	if s.cfg.Strategy == StartConstant && q.credit <= 0 && q.nextAt.After(at) {
		at = q.nextAt
	}
	return at
}

// NextStart returns the time at which the next group of entities may be started, if entities wait for nothing else; zero:
// they wait for something else, or there are none. The driver steps the Starter at that time, because ticks may be rarer
// than groups.
func (s *Starter) NextStart() (at time.Time) {
	for _, q := range s.types {
		if s.cfg.Strategy == StartConstant && q.credit <= 0 && s.waits(q) {
			at = due.Earliest(at, s.groupAt(q))
		}
	}
	return at
}

// Stats returns the current counts.
func (s *Starter) Stats() StartStats {
	st := s.stats
	st.Wakes, st.Starting, st.Failing, st.ReadsFailed = s.wakes, s.underWay, len(s.starts)-s.underWay, s.sweep.Failed
	return st
}
