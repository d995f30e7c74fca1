package wakeup

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// restartSweep begins a new sweep of a shard, from its first wake-up on. It is called when the
// wake-ups in memory may differ from those in the journal.
func (k *Keeper) restartSweep(s *shard) {
	s.empty = false
	if s.reading {
		s.sweepAgain = true
		return
	}
	k.beginSweep(s, k.now)
}

// beginSweep makes the next sweep of a shard begin at the time at.
func (k *Keeper) beginSweep(s *shard, at time.Time) {
	s.sweep++
	s.horizon = s.covered() //mutant:skip coverage-lost
	s.after, s.readAt = journal.WakePosition{}, at
	k.scanBy(at)
}

// scanBy makes sure that the shards are scanned at time t, or earlier.
func (k *Keeper) scanBy(t time.Time) {
	if k.scanAt.IsZero() || t.Before(k.scanAt) {
		k.scanAt = t
	}
}

// roomCheck is the delay between the departure of a wake-up from the memory and the scan of the
// shards. It is not 0, because thousands of wake-ups may leave in a second.
const roomCheck = 10 * time.Millisecond

// madeRoom is called when a wake-up leaves the memory, or stops waiting for its time. Either may make
// room for a shard that waits to be read.
func (k *Keeper) madeRoom() {
	if k.noRoom {
		k.noRoom = false
		k.scanBy(k.now.Add(roomCheck))
	}
}

// scan looks for shards whose next read is due, and begins one read for as many of these shards
// as one read may have.
func (k *Keeper) scan() {
	if k.scanAt.IsZero() || k.now.Before(k.scanAt) || k.now.Before(k.readsAfter) || len(k.reads) >= k.cfg.Reads {
		return
	}
	k.scanAt = time.Time{}
	var r Read
	rd := &reading{asked: k.now, until: k.wall() + k.cfg.Ahead.Milliseconds()}
	for n := range k.shards {
		s := k.shards[(k.scanFrom+n)%len(k.shards)]
		if s.reading || s.readAt.IsZero() {
			continue
		}
		if s.readAt.After(k.now) {
			k.scanBy(s.readAt)
			continue
		}
		if len(rd.shards) >= k.cfg.ReadShards || k.busy(s) || k.wakes+k.reserved+k.cfg.Page > k.cfg.Wakes {
			k.noRoom = true
			continue
		}
		if len(rd.shards) == 0 {
			rd.any = s.empty
		} else if rd.any != s.empty {
			k.scanBy(k.now) // the next read has it
			continue
		}
		s.reading, s.changed, s.changedWakes, s.ignored = true, map[key]struct{}{}, nil, map[sharding.Entity]struct{}{}
		k.reserved += k.cfg.Page
		rd.shards = append(rd.shards, s)
		r.Shards = append(r.Shards, journal.ShardPosition{Shard: s.id, After: s.after})
	}
	if len(rd.shards) == 0 {
		return
	}
	k.scanFrom = (k.scanFrom + len(rd.shards)) % len(k.shards)
	k.lastRead++
	r.Number, r.Until, r.Limit = k.lastRead, rd.until, k.cfg.Page
	if rd.any {
		r.Until, r.Limit = 0, 1
		//mutant:do any-purge r.Until = math.MaxInt64
	}
	k.reads[r.Number] = rd
	k.out.Reads = append(k.out.Reads, r)
}

// busy reports whether so many wake-ups of a shard wait in memory for their time that no more are read.
// Wake-ups whose firing is in progress do not count, nor do blocked wake-ups, which wait for a firing of
// their entity to end: how long a firing takes is up to the handler.
func (k *Keeper) busy(s *shard) bool {
	//mutant:do blocked-ready return s.waitingWakes+k.blocked >= k.cfg.Page
	//mutant:do firing-ready return s.waitingWakes+len(k.firings) >= k.cfg.Page
	//mutant:false restart-held
	if s.after.Due < s.horizon {
		return false // earlier sweeps have read the wake-ups that are due so soon: the page will have few new wake-ups
	}
	return s.waitingWakes >= k.cfg.Page
}

// page handles the answer to a read.
func (k *Keeper) page(in *Page) {
	rd := k.reads[in.Number]
	if rd == nil {
		return
	}
	delete(k.reads, in.Number)
	k.scanBy(k.now) // the next read may begin
	if in.Err == nil {
		k.failedReads = 0
		if !in.Now.IsZero() { //mutant:true no-clock
			k.clock.Read(rd.asked, k.now, in.Now)
		}
	} else {
		k.stats.ReadsFailed++
		k.failedReads++
		k.readsAfter = k.now.Add(k.pause(k.failedReads))
		k.scanBy(k.readsAfter)
	}
	wakes := in.Rows
	for _, s := range rd.shards {
		n := 0
		for n < len(wakes) && wakes[n].Shard == s.id {
			n++
		}
		k.reserved -= k.cfg.Page
		switch {
		case s.closed:
		case in.Err != nil:
			k.notRead(s, k.readsAfter)
		case in.Unreadable(s.id):
			k.notRead(s, k.now.Add(k.cfg.RetryMax))
		case rd.any:
			// A page without room for the wake-ups of a shard does not say that it has none.
			k.anyOf(s, n > 0 || slices.Contains(in.More, s.id)) //mutant:false any-room slices.Contains(in.More, s.id)
		default:
			k.pageOf(s, wakes[:n], rd.until, slices.Contains(in.More, s.id))
		}
		wakes = wakes[n:]
	}
}

// notRead ends a failed read of a shard. The shard is read again at the time at.
func (k *Keeper) notRead(s *shard, at time.Time) {
	s.endRead()
	s.readAt = at
	k.scanBy(at)
}

// endRead notes that no read of the shard is in progress any more.
func (s *shard) endRead() {
	s.reading, s.outdated, s.changed, s.changedWakes, s.ignored = false, false, nil, nil, nil
}

// pageOf handles the wake-ups of one shard in a page. All of them are due before until. The flag more
// is true if the shard may have more such wake-ups than the page.
func (k *Keeper) pageOf(s *shard, wakes []journal.WakeRow, until int64, more bool) {
	if s.outdated {
		s.endRead()
		s.sweepAgain = false
		k.restartSweep(s)
		return
	}
	first := s.after == journal.WakePosition{}
	none := first && len(wakes)+len(s.wakes)+len(s.changed) == 0
	switch {
	case !more:
		s.horizon = until
	case len(wakes) > 0:
		s.after = wakes[len(wakes)-1].Position()
	default: // the page had no room for wake-ups of this shard
	}
	for i := range wakes {
		w := &wakes[i]
		if _, ignored := s.ignored[w.Entity]; ignored {
			continue
		}
		if _, newer := s.changed[keyOf(w)]; newer {
			continue
		}
		if old := s.wakes[keyOf(w)]; old != nil {
			if old.state == underWay || old.WakeRef == w.WakeRef && sameError(old.Err, w.Err) {
				old.sweep = s.sweep
				continue // if the firing in progress belongs to an older setting, the journal refuses it
			}
			k.remove(old)
		}
		k.add(s, w)
	}
	for i := range s.changedWakes {
		if w := &s.changedWakes[i]; w.Due <= s.covered() && s.wakes[keyOf(w)] == nil {
			k.add(s, w)
		}
	}
	if !more { //mutant:false gone-rows
		k.removeGone(s, until)
	}
	s.endRead()
	switch {
	case s.sweepAgain:
		s.sweepAgain = false
		k.restartSweep(s)
	case more:
		s.readAt = k.now
		k.scanBy(k.now)
	default:
		at := k.now.Add(k.cfg.Refresh)
		//mutant:do beyond-horizon at = k.now.Add(1000 * time.Hour)
		s.empty = none
		k.beginSweep(s, at)
	}
}

// sameError reports whether two reads of a wake-up have met the same damage, or none.
func sameError(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// removeGone is called at the end of a sweep that has read all wake-ups that are due before until. It
// removes from memory the wake-ups that the sweep has not found: they are not in the journal any more.
// A wake-up whose firing is in progress stays: the firing itself may have removed the wake-up from the
// journal, and ended handles that.
func (k *Keeper) removeGone(s *shard, until int64) {
	for _, w := range s.wakes { // order-free: all that are gone are removed
		if w.sweep != s.sweep && w.Due < until && w.state != underWay {
			k.remove(w)
		}
	}
}

// anyOf handles the answer to whether a shard has any reminder. The flag some is true if it has
// one, or may have.
func (k *Keeper) anyOf(s *shard, some bool) {
	quiet := !some && s.empty && len(s.changed) == 0
	s.endRead()
	s.empty = false
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
	if at := k.NextDue(); !at.IsZero() {
		by(at)
	}
	return t
}

// NextDue returns the time at which the first wake-up that the keeper knows of is due, of those that may
// fire now. Zero means that it knows of none.
func (k *Keeper) NextDue() time.Time {
	var t time.Time
	for _, q := range k.types {
		if len(q.due) > 0 && q.firingsUnderWay < k.cfg.Firings && k.clock.Known() {
			at := k.clock.When(time.UnixMilli(q.due[0].Due))
			if t.IsZero() || at.Before(t) {
				t = at
			}
		}
	}
	return t
}
