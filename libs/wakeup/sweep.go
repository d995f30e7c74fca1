package wakeup

import (
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// restartSweep begins a new sweep of a shard, from its first wake-up on. It is called when the
// wake-ups in memory may differ from those in the journal.
func (k *Keeper) restartSweep(s *shard) {
	s.empty = false
	if s.Reading {
		s.sweepAgain = true
		return
	}
	k.beginSweep(s, k.now)
}

// beginSweep makes the next sweep of a shard begin at the time at.
func (k *Keeper) beginSweep(s *shard, at time.Time) {
	s.sweep++
	s.horizon = s.covered() //mutant:skip coverage-lost
	s.after = journal.WakePosition{}
	k.sweep.ReadBy(s, at)
}

// scan begins one read of the shards whose next read is due and has room.
func (k *Keeper) scan() {
	until, any, first := k.wall()+k.cfg.Ahead.Milliseconds(), false, true
	number, shards := k.sweep.Begin(k.now, func(s *shard) due.Want {
		switch {
		case k.busy(s) || k.wakes+(k.sweep.Pending()+1)*k.cfg.Page > k.cfg.Wakes:
			return due.Room
		case first:
			first, any = false, s.empty
		case any != s.empty:
			return due.Next // one read asks the same of all its shards
		}
		s.changed, s.changedWakes, s.ignored = map[key]struct{}{}, nil, map[sharding.Entity]struct{}{}
		return due.Take
	})
	if len(shards) == 0 {
		return
	}
	r := Read{Number: number, WakesRequest: journal.WakesRequest{Until: until, Limit: k.cfg.Page}}
	if any {
		until, r.Until, r.Limit = 0, 0, 1
		//mutant:do any-purge r.Until = math.MaxInt64
	}
	for _, s := range shards {
		s.until = until
		r.Shards = append(r.Shards, journal.ShardPosition{Shard: s.ID, After: s.after})
	}
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
	for _, p := range k.sweep.Page(k.now, in.Number, &in.WakesPage, in.Err) {
		switch s := p.Shard; {
		case p.Failed:
			s.endRead()
		case s.until == 0:
			// A page without room for the wake-ups of a shard does not say that it has none.
			k.anyOf(s, len(p.Entries) > 0 || p.More) //mutant:false any-room p.More
		default:
			k.pageOf(s, p.Entries, s.until, p.More)
		}
	}
}

// endRead notes that no read of the shard is in progress any more.
func (s *shard) endRead() {
	s.Reading, s.outdated, s.changed, s.changedWakes, s.ignored = false, false, nil, nil, nil
}

// pageOf handles the wake-ups of one shard in a page. All of them are due before until. The flag more
// is true if the shard may have more such wake-ups than the page.
func (k *Keeper) pageOf(s *shard, wakes []journal.WakeEntry, until int64, more bool) {
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
		k.sweep.ReadBy(s, k.now)
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
	if s.ReadAt = (time.Time{}); !quiet {
		k.sweep.ReadBy(s, k.now.Add(k.cfg.Refresh))
	}
}

// NextAlarm returns the time at which the keeper has something to do, if no input comes
// earlier. Zero means never.
func (k *Keeper) NextAlarm() time.Time {
	return due.Earliest(k.sweep.Alarm(), k.failing.Alarm(), k.NextDue())
}

// NextDue returns the time at which the first wake-up that the keeper knows of is due, of those that may
// fire now. Zero means that it knows of none.
func (k *Keeper) NextDue() (at time.Time) {
	for _, q := range k.types {
		if len(q.due) > 0 && q.firingsUnderWay < k.cfg.Firings && k.sweep.Clock.Known() {
			at = due.Earliest(at, k.sweep.Clock.When(time.UnixMilli(q.due[0].Due)))
		}
	}
	return at
}
