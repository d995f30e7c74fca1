package wakeup

import (
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// restartSweep begins a new sweep of a shard, from its first wake-up on. It is called when a
// wake-up of the shard may have changed, and it is not known how.
func (k *Keeper) restartSweep(s *shard) {
	s.empty = false
	if s.reading {
		s.sweepAgain = true
		return
	}
	s.after, s.readAt = Position{Shard: s.id}, k.now
	k.scanBy(k.now)
}

// scanBy makes sure that the shards are scanned at time t, or earlier.
func (k *Keeper) scanBy(t time.Time) {
	if k.scanAt.IsZero() || t.Before(k.scanAt) {
		k.scanAt = t
	}
}

// roomCheck is how long after a row has left the memory the shards are scanned. It is not 0,
// because thousands of rows may leave in a second.
const roomCheck = 10 * time.Millisecond

// madeRoom is called when a row leaves the memory, or begins to fail. Either may make room for
// a shard that waits to be read.
func (k *Keeper) madeRoom() {
	if k.noRoom {
		k.noRoom = false
		k.scanBy(k.now.Add(roomCheck))
	}
}

// scan looks for shards whose next read is due, and begins one read for as many of them as it
// may have.
func (k *Keeper) scan() {
	if k.scanAt.IsZero() || k.now.Before(k.scanAt) || k.now.Before(k.readsAfter) || len(k.reads) >= k.cfg.Reads {
		return
	}
	k.scanAt = time.Time{}
	var r Read
	rd := &reading{until: k.wall() + k.cfg.Ahead.Milliseconds()}
	for n := range k.shards {
		s := k.shards[(k.scanFrom+n)%len(k.shards)]
		if s.reading || s.readAt.IsZero() {
			continue
		}
		if s.readAt.After(k.now) {
			k.scanBy(s.readAt)
			continue
		}
		if len(rd.shards) >= k.cfg.ReadShards || s.ready >= k.cfg.Page || k.rows+k.reserved+k.cfg.Page > k.cfg.Rows {
			k.noRoom = true
			continue
		}
		if len(rd.shards) == 0 {
			rd.any = s.empty
		} else if rd.any != s.empty {
			k.scanBy(k.now) // the next read has it
			continue
		}
		s.reading, s.changed, s.changedRows = true, map[key]struct{}{}, nil
		k.reserved += k.cfg.Page
		rd.shards = append(rd.shards, s)
		r.Shards = append(r.Shards, s.after)
	}
	if len(rd.shards) == 0 {
		return
	}
	k.scanFrom = (k.scanFrom + len(rd.shards)) % len(k.shards)
	k.lastRead++
	r.Number, r.Until, r.Limit = k.lastRead, rd.until, k.cfg.Page
	if rd.any {
		r.Until, r.Limit = math.MaxInt64, 1
	}
	k.reads[r.Number] = rd
	k.out.Reads = append(k.out.Reads, r)
}

// page handles the answer to a read.
func (k *Keeper) page(in *Page) {
	rd := k.reads[in.Number]
	if rd == nil {
		return
	}
	delete(k.reads, in.Number)
	k.scanBy(k.now) // the next read may begin
	if in.Err == "" {
		k.failedReads = 0
		if !in.Now.IsZero() || mutant.On("no-clock") {
			k.storeClock, k.storeClockAt = in.Now.UnixMilli(), k.now
		}
	} else {
		k.stats.ReadsFailed++
		k.failedReads++
		k.readsAfter = k.now.Add(k.pause(k.failedReads))
		k.scanBy(k.readsAfter)
	}
	rows := in.Rows
	for _, s := range rd.shards {
		n := 0
		for n < len(rows) && rows[n].Shard == s.id {
			n++
		}
		k.reserved -= k.cfg.Page
		switch {
		case s.closed:
		case in.Err != "":
			k.notRead(s, k.readsAfter)
		case slices.Contains(in.Failed, s.id):
			k.notRead(s, k.now.Add(k.cfg.RetryMax))
		case rd.any:
			k.anyOf(s, n > 0)
		default:
			k.pageOf(s, rows[:n], rd.until, slices.Contains(in.More, s.id))
		}
		rows = rows[n:]
	}
}

// notRead has a shard read again later.
func (k *Keeper) notRead(s *shard, at time.Time) {
	s.reading, s.changed, s.changedRows, s.readAt = false, nil, nil, at
	k.scanBy(at)
}

// pageOf handles the rows that were read of one shard, all of which are due before until. more
// says that the page may not have all of the shard's rows.
func (k *Keeper) pageOf(s *shard, rows []Row, until int64, more bool) {
	changed, changedRows := s.changed, s.changedRows
	s.reading, s.changed, s.changedRows = false, nil, nil
	switch {
	case more && len(rows) > 0:
		s.after, s.readAt = rows[len(rows)-1].position(), k.now
	case more: // the page had no room for rows of this shard
		s.readAt = k.now
	default:
		first := s.after == Position{Shard: s.id}
		s.after, s.readAt = Position{Shard: s.id}, k.now.Add(k.cfg.Refresh)
		s.horizon = until
		s.empty = first && len(rows)+len(s.rows)+len(changed) == 0
		if mutant.On("beyond-horizon") {
			s.readAt = k.now.Add(1000 * time.Hour)
		}
	}
	for i := range rows {
		r := &rows[i]
		if _, newer := changed[r.key()]; newer {
			continue
		}
		if old := s.rows[r.key()]; old != nil {
			if old.state == underWay || old.WakeRef == r.WakeRef && old.Err == r.Err {
				continue // if a firing under way is of another setting, the journal refuses it
			}
			k.remove(old)
		}
		k.add(s, r)
	}
	for i := range changedRows {
		if r := &changedRows[i]; r.Due <= s.covered() && s.rows[r.key()] == nil {
			k.add(s, r)
		}
	}
	if s.sweepAgain {
		s.sweepAgain = false
		k.restartSweep(s)
	}
	k.scanBy(s.readAt)
}

// anyOf handles the answer to whether a shard has any reminder.
func (k *Keeper) anyOf(s *shard, some bool) {
	quiet := !some && s.empty && len(s.changed) == 0
	s.reading, s.changed, s.changedRows, s.empty = false, nil, nil, false
	if s.sweepAgain || !quiet && !some {
		s.sweepAgain = false
		k.restartSweep(s)
		return
	}
	if s.readAt = k.now.Add(k.cfg.Refresh); quiet {
		s.readAt = time.Time{}
		return
	}
	k.scanBy(s.readAt)
}

// NextAlarm returns the time at which the keeper has something to do, if no input comes
// earlier. Zero means never.
func (k *Keeper) NextAlarm() time.Time {
	var t time.Time
	by := func(at time.Time) {
		if t.IsZero() || at.Before(t) {
			t = at
		}
	}
	if len(k.reads) < k.cfg.Reads && !k.scanAt.IsZero() {
		if at := k.scanAt; at.Before(k.readsAfter) {
			by(k.readsAfter)
		} else {
			by(at)
		}
	}
	if len(k.retries) > 0 {
		by(k.retries[0].retryAt)
	}
	for _, q := range k.types {
		if len(q.due) > 0 && q.firing < k.cfg.Firings && !k.storeClockAt.IsZero() {
			by(k.storeClockAt.Add(time.Duration(q.due[0].Due-k.storeClock) * time.Millisecond))
		}
	}
	return t
}
