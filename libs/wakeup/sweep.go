package wakeup

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// sweepAgain has the wake-ups of a shard read from the first one on, because something about
// them is not known.
func (k *Keeper) sweepAgain(s *shard) {
	if s.reading {
		s.again = true
		return
	}
	s.after, s.readAt = Position{Shard: s.id}, k.now
	k.scanBy(k.now)
}

// scanBy makes sure that the shards are looked at by then.
func (k *Keeper) scanBy(t time.Time) {
	if k.scanAt.IsZero() || t.Before(k.scanAt) {
		k.scanAt = t
	}
}

// roomCheck is the pause before the shards are looked at again after rows have left the
// memory: thousands of rows leave it in a second.
const roomCheck = 10 * time.Millisecond

// madeRoom notes that a row has left the memory, or fails.
func (k *Keeper) madeRoom() {
	if k.noRoom {
		k.noRoom = false
		k.scanBy(k.now.Add(roomCheck))
	}
}

// scan begins reads of the shards whose time has come.
func (k *Keeper) scan() {
	if k.scanAt.IsZero() || k.now.Before(k.scanAt) || k.now.Before(k.readsAfter) || len(k.reads) >= k.cfg.Reads {
		return
	}
	k.scanAt = time.Time{}
	var r Read
	rd := &reading{until: k.wall() + k.cfg.Ahead.Milliseconds()}
	for n := range k.shards {
		s := k.shards[(k.scanFrom+n)%len(k.shards)]
		if s.reading {
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
		s.reading, s.changed, s.set = true, map[key]bool{}, nil
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
	k.reads[r.Number] = rd
	k.out.Reads = append(k.out.Reads, r)
}

// page takes in the answer to a read.
func (k *Keeper) page(in *Page) {
	rd := k.reads[in.Number]
	if rd == nil {
		return
	}
	delete(k.reads, in.Number)
	k.scanBy(k.now) // the next one may begin
	if in.Err == "" {
		k.readPause = 0
		k.clock, k.clockAt = in.Now.UnixMilli(), k.now
	} else {
		k.stats.ReadsFailed++
		k.readPause++
		k.readsAfter = k.now.Add(k.pause(k.readPause))
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
		default:
			k.pageOf(s, rows[:n], rd.until, slices.Contains(in.More, s.id))
		}
		rows = rows[n:]
	}
}

// notRead has a shard read again later.
func (k *Keeper) notRead(s *shard, at time.Time) {
	s.reading, s.changed, s.set, s.readAt = false, nil, nil, at
	k.scanBy(at)
}

// pageOf takes in what was read of one shard.
func (k *Keeper) pageOf(s *shard, rows []Row, until int64, more bool) {
	changed, set := s.changed, s.set
	s.reading, s.changed, s.set = false, nil, nil
	switch {
	case more && len(rows) > 0:
		s.after, s.readAt = rows[len(rows)-1].position(), k.now
	case more: // the page was full of other shards' rows
		s.readAt = k.now
	default:
		s.after, s.readAt = Position{Shard: s.id}, k.now.Add(k.cfg.Refresh)
		s.horizon = until
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
				continue // if it fires and is another one, the journal refuses that
			}
			k.remove(old)
		}
		k.add(s, r)
	}
	for i := range set {
		if r := &set[i]; r.Due <= s.covered() && s.rows[r.key()] == nil {
			k.add(s, r)
		}
	}
	if s.again {
		s.again = false
		k.sweepAgain(s)
	}
	k.scanBy(s.readAt)
}

// NextAlarm returns when the keeper has something to do unless it is told something before;
// zero: never.
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
		if len(q.due) > 0 && q.firing < k.cfg.Firings && !k.clockAt.IsZero() {
			by(k.clockAt.Add(time.Duration(q.due[0].Due-k.clock) * time.Millisecond))
		}
	}
	return t
}
