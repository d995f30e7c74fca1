package wakeup

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

// scanBy makes sure that the shards are scanned at the given time, or earlier.
func (s *Starter) scanBy(t time.Time) {
	if s.scanAt.IsZero() || t.Before(s.scanAt) {
		s.scanAt = t
	}
}

// madeRoom is called when a wake-up has left the memory.
func (s *Starter) madeRoom() {
	if s.noRoom {
		s.noRoom = false
		s.scanBy(s.now.Add(roomCheck))
	}
}

// scan begins a read of the shards that have no wake-ups in memory and are due to be read.
func (s *Starter) scan() {
	if s.scanAt.IsZero() || s.now.Before(s.scanAt) || s.now.Before(s.readsAfter) || len(s.reads) > 0 {
		return
	}
	s.scanAt = time.Time{}
	r := Read{Remembered: true, WakesRequest: journal.WakesRequest{Until: 1, Limit: s.cfg.Page}}
	var shards []*startShard
	for n := range s.shards {
		sh := s.shards[(s.scanFrom+n)%len(s.shards)]
		if sh.reading || sh.readAt.IsZero() || len(sh.page) > 0 {
			continue
		}
		if sh.readAt.After(s.now) {
			s.scanBy(sh.readAt)
			continue
		}
		if len(shards) >= s.cfg.ReadShards || s.wakes+s.reserved+s.cfg.Page > s.cfg.Wakes {
			s.noRoom = true
			continue
		}
		sh.reading = true
		s.reserved += s.cfg.Page
		shards = append(shards, sh)
		r.Shards = append(r.Shards, journal.ShardPosition{Shard: sh.id, After: sh.after})
	}
	if len(shards) == 0 {
		return
	}
	s.scanFrom = (s.scanFrom + len(shards)) % len(s.shards)
	s.lastRead++
	r.Number = s.lastRead
	s.reads[r.Number] = shards
	s.out.Reads = append(s.out.Reads, r)
}

// page handles the answer to a read.
func (s *Starter) page(in *Page) {
	shards := s.reads[in.Number]
	if shards == nil {
		return
	}
	delete(s.reads, in.Number)
	s.scanBy(s.now) // the next read may begin
	if in.Err != nil {
		s.stats.ReadsFailed++
		s.readsAfter = s.now.Add(s.cfg.ReadRetry)
	}
	wakes := in.Rows
	for _, sh := range shards {
		n := 0
		for n < len(wakes) && wakes[n].Shard == sh.id {
			n++
		}
		s.reserved -= s.cfg.Page
		sh.reading = false
		switch {
		case sh.closed:
		case in.Err != nil:
			s.readLater(sh, s.readsAfter)
		case in.Unreadable(sh.id):
			s.readLater(sh, s.now.Add(s.cfg.BackOffMax))
		default:
			s.pageOf(sh, wakes[:n], slices.Contains(in.More, sh.id))
		}
		wakes = wakes[n:]
	}
}

func (s *Starter) readLater(sh *startShard, at time.Time) {
	sh.readAt = at
	s.scanBy(at)
}

// pageOf handles the wake-ups of one shard in a page.
func (s *Starter) pageOf(sh *startShard, wakes []journal.WakeRow, more bool) {
	sh.readAt = time.Time{}
	// Invariant: when a shard starts, its remembered entities are brought to life without a command. The most recently
	// active entities come first. The configured rate and limits apply. An entity that cannot be started does not delay
	// the others.
	// Guarded by: `wakeup.Starter` reads the wake-ups of a shard page by page. If a start fails, the Starter tries
	// again after a back-off.
	// Mutants: next-page, activity-order, start-limit, start-rate, restart-back-off
	if more { //mutant:false next-page
		sh.readAt = s.now
	}
	s.sweepAgain(sh)
	if len(wakes) == 0 {
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
	var t time.Time
	by := func(at time.Time) {
		if t.IsZero() || at.Before(t) {
			t = at
		}
	}
	if len(s.reads) == 0 && !s.scanAt.IsZero() {
		by(latest(s.scanAt, s.readsAfter))
	}
	if len(s.retries) > 0 {
		by(s.retries[0].retryAt)
	}
	for _, q := range s.types {
		if len(q.ready)+len(q.again) > 0 && q.underWay < s.cfg.Limit {
			at := q.busyTill
			if s.cfg.Strategy == StartConstant && q.credit <= 0 {
				at = latest(at, q.nextAt)
			}
			by(at)
		}
	}
	return t
}

// NextStart returns the time at which the next group of entities may be started, if entities wait for nothing else; zero:
// they wait for something else, or there are none. The driver steps the Starter at that time, because ticks may be rarer
// than groups.
func (s *Starter) NextStart() (at time.Time) {
	for _, q := range s.types {
		if s.cfg.Strategy == StartConstant && q.credit <= 0 && len(q.ready)+len(q.again) > 0 && q.underWay < s.cfg.Limit {
			if next := latest(q.busyTill, q.nextAt); at.IsZero() || next.Before(at) {
				at = next
			}
		}
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Stats returns the current counts.
func (s *Starter) Stats() StartStats {
	st := s.stats
	st.Wakes, st.Starting, st.Failing = s.wakes, s.underWay, len(s.starts)-s.underWay
	return st
}
