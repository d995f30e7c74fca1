package wakeup

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/storeclock"
	"github.com/roost-cluster/roost/libs/turn"
)

// Keeper decides when the wake-ups of the open shards fire. It is not safe for concurrent
// use.
type Keeper struct {
	cfg   Config
	sweep due.Sweeper[*shard, journal.WakeEntry]
	types []*typeQueue // in the order in which they were first opened
	// firings has the firing in progress of each entity: an entity has at most one.
	firings   map[sharding.Entity]*firing
	failing   due.Failing[*wake]
	wakes     int    // number of wake-ups in memory
	blocked   int    // number of wake-ups that are blocked and not failing
	lastOrder uint64 // the last wake.order that was given
	stats     Stats
	now       time.Time
	out       *Outputs
}

// typeQueue has the wake-ups in memory of one entity type that wait for their time.
type typeQueue struct {
	name            sharding.EntityType
	due             priority.Queue[*wake] // the waiting wake-ups, by due time
	firingsUnderWay int
}

// shard is an open shard.
type shard struct {
	due.Shard
	typ     *typeQueue
	wakes   map[key]*wake
	sweep   uint64               // the number of the present sweep; between two sweeps, the number of the next sweep
	horizon int64                // earlier sweeps have read all wake-ups that are due before this time
	after   journal.WakePosition // how far the present sweep has come
	// until is of the read in progress: it reads the wake-ups that are due before this time. 0: it only asks
	// whether the shard has any reminder at all.
	until int64
	// empty is true if the last sweep found nothing that is due soon. The next read then asks
	// whether the shard has any reminder at all. If it has none, the shard is quiet: it is not read
	// until a reminder is set. While the shard is open here, only this process can set one.
	empty bool
	// sweepAgain is true if the sweep must restart, because a wake-up that it has passed may have
	// changed.
	sweepAgain bool
	// changed has the wake-ups that have changed while the read was in progress. The page of the
	// read may be older than these changes.
	changed      map[key]struct{}
	changedWakes []journal.WakeEntry // the wake-ups in changed that still exist, as they are now
	// ignored has the entities whose wake-ups in the page of the read are ignored. While the read was
	// in progress, these entities were deleted, or it became unknown which wake-ups they have.
	ignored map[sharding.Entity]struct{}
	// outdated is true if the whole page of the read must be ignored, because more changed during
	// the read than could be noted.
	outdated     bool
	waitingWakes int // number of wake-ups that are waiting and not failing
}

// key names a wake-up in its shard.
type key struct {
	entity sharding.Entity
	kind   sharding.WakeKind
	name   string
}

// wake is a wake-up in memory: what the journal has stored, and the state of this Keeper.
type wake struct {
	journal.WakeEntry
	shard *shard
	due.Failure
	state wakeState
	sweep uint64 // shard.sweep when the wake-up was last read or set
	order uint64 // orders wake-ups that are due at the same time: the order in which they were queued
	place int    // in typeQueue.due
}

func (w *wake) Before(o *wake) bool {
	return cmp.Or(cmp.Compare(w.Due, o.Due), cmp.Compare(w.order, o.order)) < 0
}

func (w *wake) Place() *int            { return &w.place }
func (w *wake) Owner() sharding.Entity { return w.Entity }
func (w *wake) Compare(o *wake) int    { return keyOf(&w.WakeEntry).compare(keyOf(&o.WakeEntry)) }

type wakeState uint8

const (
	waiting  wakeState = iota + 1 // in typeQueue.due
	blocked                       // due, and in firing.blocked: another firing of its entity is in progress
	underWay                      // its firing is in progress
	retrying                      // failing, and waits to be retried
	damaged                       // failing, because it cannot be read
)

// firing is a firing in progress: the keeper has asked for the command of a wake-up to be run,
// and does not know yet how the firing has ended.
type firing struct {
	shard   *shard
	wake    *wake
	ref     sharding.WakeRef // the setting of the wake-up that fires
	blocked []*wake          // due wake-ups of the same entity, which wait until this firing has ended
	more    bool             // other due wake-ups of the entity were removed from memory, because too many wake-ups are blocked
}

// New returns a keeper. The configuration must be valid.
func New(cfg Config) *Keeper {
	cfg = cfg.Derived()
	limits := due.Limits{ReadShards: cfg.ReadShards, RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax, DamagedMax: cfg.RetryMax, Seed: cfg.Seed}
	return &Keeper{cfg: cfg, sweep: due.New[*shard](limits, shardOf), firings: map[sharding.Entity]*firing{}}
}

func shardOf(w *journal.WakeEntry) sharding.ShardID { return w.Shard }

// Step applies one input at time now, and appends to out what must be done.
func (k *Keeper) Step(now time.Time, in Input, out *Outputs) {
	k.now, k.out = now, out
	switch in := in.(type) {
	case Open:
		k.open(in)
	case Close:
		k.close(in.Shard)
	case Page:
		k.page(&in)
	case Tick:
	}
	k.advance()
	k.out = nil
}

// Observe takes an event of the [turn.Machine]: a [turn.WakesChanged], a [turn.WakesUnknown] or a
// [turn.FiringEnded]. It ignores all others. Nothing fires before the next Step, because another
// event of the same step of the Machine may say that a wake-up is gone.
func (k *Keeper) Observe(now time.Time, e turn.ShardEvent) {
	k.now = now
	switch e := e.(type) {
	case turn.WakesChanged:
		k.changed(&e)
	case turn.WakesUnknown:
		if s := k.sweep.At(e.Shard, e.Epoch); s != nil {
			k.drop(s, e.Entity) //mutant:skip unknown-rows
			k.restartSweep(s)
		}
	case turn.FiringEnded:
		k.ended(&e)
	}
}

func (k *Keeper) open(in Open) {
	k.close(in.Shard)
	i := slices.IndexFunc(k.types, func(t *typeQueue) bool { return t.name == in.Shard.Type })
	if i < 0 {
		i = len(k.types)
		k.types = append(k.types, &typeQueue{name: in.Shard.Type})
	}
	k.sweep.Open(&shard{Shard: due.Shard{ID: in.Shard, Epoch: in.Epoch, ReadAt: k.now}, typ: k.types[i], wakes: map[key]*wake{}})
}

func (k *Keeper) close(id sharding.ShardID) {
	s, open := k.sweep.Close(id)
	if !open {
		return
	}
	for _, w := range s.wakes { // order-free: all are removed
		k.remove(w)
	}
	for e, f := range k.firings { // order-free: all of the shard are removed
		if f.shard == s {
			delete(k.firings, e)
			s.typ.firingsUnderWay--
		}
	}
}

// wall returns what the clock of the store says now, in Unix milliseconds.
func (k *Keeper) wall() int64 { return k.sweep.Clock.Now(k.now).UnixMilli() }

// SetClock sets the estimate of the store's clock. The driver calls it before the first shard is open: until a clock is
// known, wake-ups are set and due by the clock of this process.
func (k *Keeper) SetClock(c storeclock.Clock) { k.sweep.Clock = c }

// Clock returns the latest time that the store's clock may show at a time of this process; false if the clock is not known.
// A wake-up that is set some time ahead counts from this time. It is due by the earliest one, so it never waits for less.
// If it were set by another clock, it would fire too early, or too late, by as much as the two differ.
func (k *Keeper) Clock() (store, at time.Time, known bool) {
	store = k.sweep.Clock.Latest(k.now)
	// Invariant: a reminder that is set some time ahead waits for that time, however much the clocks of the region's
	// machine and of the journal's store differ.
	// Guarded by: `storeclock.Clock` has the earliest and the latest time that the store's clock may show, and a late
	// reading does not set them back. `wakeup.Keeper.Clock`: `RemindAfter` and `RemindEvery` count from the latest
	// time, and the Keeper fires by the earliest.
	// Mutants: two-clocks, set-by-earliest, late-reading
	//mutant:do set-by-earliest store = k.sweep.Clock.Now(k.now)
	//mutant:false two-clocks k.sweep.Clock.Known()
	return store, k.now, k.sweep.Clock.Known()
}

// covered returns the end of the covered time: every wake-up of the shard that is due earlier is in
// memory.
func (s *shard) covered() int64 { return max(s.horizon, s.after.Due) }

// add puts a wake-up into memory. If there is no room for it, a later sweep reads it again.
func (k *Keeper) add(s *shard, in *journal.WakeEntry) {
	if k.wakes >= k.cfg.Wakes {
		k.restartSweep(s)
		return
	}
	w := &wake{WakeEntry: *in, shard: s, sweep: s.sweep}
	s.wakes[keyOf(in)] = w
	k.wakes++
	if w.Err != nil {
		k.fail(w, damaged, sharding.DataLoss, w.Err.Error())
		return
	}
	k.wait(w)
}

func keyOf(w *journal.WakeEntry) key { return key{entity: w.Entity, kind: w.Kind, name: w.Name} }

// wait queues a wake-up until it is due.
func (k *Keeper) wait(w *wake) {
	w.state = waiting
	k.lastOrder++
	w.order = k.lastOrder
	w.shard.typ.due.Push(w)
	if w.Times == 0 {
		w.shard.waitingWakes++
	}
}

// unwait undoes wait.
func (k *Keeper) unwait(w *wake) {
	w.shard.typ.due.Remove(w)
	if w.Times == 0 {
		w.shard.waitingWakes--
		k.sweep.MadeRoom(k.now)
	}
}

// remove takes a wake-up out of memory.
func (k *Keeper) remove(w *wake) {
	switch w.state {
	case waiting:
		k.unwait(w)
	case blocked:
		k.unblock(w)
	}
	k.failing.Clear(w)
	k.sweep.MadeRoom(k.now)
	w.state = 0
	delete(w.shard.wakes, keyOf(&w.WakeEntry))
	k.wakes--
}

// changed brings the wake-ups in memory up to date after an append that has changed wake-ups.
func (k *Keeper) changed(e *turn.WakesChanged) {
	s := k.sweep.At(e.Shard, e.Epoch)
	if s == nil {
		return
	}
	for _, f := range e.Fired {
		if f.Kind != sharding.ReminderWake {
			continue
		}
		id := key{entity: e.Entity, kind: f.Kind, name: f.Name}
		w := s.wakes[id]
		switch {
		case f.Next == 0:
			k.replace(s, id, nil)
		case w == nil: // the wake-up is not in memory any more, so its period is not known
			k.replace(s, id, nil)
			k.restartSweep(s)
		default:
			next := w.WakeEntry
			next.Number, next.Due = f.Number+1, f.Next
			k.replace(s, id, &next)
		}
	}
	for i := range e.Records {
		if e.Records[i].Delete { //mutant:false deleted-rows
			k.drop(s, e.Entity)
		}
		for j := range e.Records[i].Wakes {
			set := &e.Records[i].Wakes[j]
			if set.Kind != sharding.ReminderWake {
				continue
			}
			id := key{entity: e.Entity, kind: set.Kind, name: set.Name}
			if set.Due == 0 {
				k.replace(s, id, nil)
				continue
			}
			k.replace(s, id, &journal.WakeEntry{
				Shard: s.ID, Entity: e.Entity, Due: set.Due, Period: set.Period, Input: set.Input,
				WakeRef: sharding.WakeRef{Kind: set.Kind, Name: set.Name, Seq: e.Records[i].Seq, Number: set.Number},
			})
		}
	}
}

// replace brings a wake-up in memory up to date after the journal has changed it. The parameter newest
// is the wake-up that the journal has now; nil: the wake-up was removed. Memory has all wake-ups of
// the shard that are due before a certain time (method covered). If newest is due later, it is not
// added to memory: a later sweep reads it.
func (k *Keeper) replace(s *shard, id key, newest *journal.WakeEntry) {
	if old := s.wakes[id]; old != nil {
		k.remove(old)
	}
	if s.Reading { //mutant:false page-older
		if len(s.changed) >= k.cfg.Wakes {
			s.outdated = true //mutant:false page-outdated
		} else {
			s.changed[id] = struct{}{}
			s.changedWakes = slices.DeleteFunc(s.changedWakes, func(w journal.WakeEntry) bool { return keyOf(&w) == id })
			if newest != nil {
				s.changedWakes = append(s.changedWakes, *newest)
			}
		}
	}
	if newest != nil && (s.empty || s.ReadAt.IsZero()) { //mutant:false quiet
		k.restartSweep(s)
	}
	if newest != nil && newest.Due <= s.covered() { //mutant:false new-wake
		k.add(s, newest)
	}
}

// ended applies the end of a firing to the wake-ups in memory, and lets other wake-ups of the entity fire.
func (k *Keeper) ended(e *turn.FiringEnded) {
	f := k.firings[e.Entity]
	if f == nil || f.shard.ID != e.Shard || f.shard.Epoch != e.Epoch || f.ref != e.Ref {
		return
	}
	delete(k.firings, e.Entity)
	f.shard.typ.firingsUnderWay--
	unchanged := f.wake.state == underWay // no WakesChanged has replaced or removed the wake-up
	switch e.End {
	case turn.FiringDone:
		k.stats.Fired++
		if unchanged { // a WakesChanged should have come first; the sweep reads what the journal has now
			k.remove(f.wake)
			k.restartSweep(f.shard)
		}
	case turn.FiringFailed:
		k.stats.Failed++
		if unchanged {
			k.fail(f.wake, retrying, e.Code, e.Message)
		}
	default:
		if e.End == turn.FiringObsolete {
			k.stats.Obsolete++
		}
		if unchanged {
			k.remove(f.wake)
		}
		k.restartSweep(f.shard) //mutant:skip in-doubt
	}
	for _, w := range f.blocked {
		if w.state == blocked {
			k.unblock(w)
			k.wait(w)
		}
	}
	if f.more { //mutant:false blocked-left
		k.restartSweep(f.shard)
	}
}

// block makes a due wake-up wait until the firing of its entity has ended. If too many wake-ups wait in
// this way, the wake-up is removed from memory instead; when the firing has ended, a sweep reads it
// again.
func (k *Keeper) block(w *wake, f *firing) {
	if w.Times == 0 && k.blocked >= k.cfg.BlockedWakes {
		f.more = true
		k.remove(w)
		return
	}
	k.unwait(w)
	if w.state = blocked; w.Times == 0 {
		k.blocked++
	}
	f.blocked = append(f.blocked, w)
}

// unblock undoes what block has counted.
func (k *Keeper) unblock(w *wake) {
	if w.Times == 0 {
		k.blocked--
	}
}

// fail notes a failure of a wake-up, and queues the wake-up to be tried again unless it is damaged. If too
// many wake-ups are failing already, the wake-up is removed from memory, and a later sweep reads it again.
func (k *Keeper) fail(w *wake, state wakeState, code sharding.Code, message string) {
	if w.Times == 0 && k.failing.Len() >= k.cfg.FailingWakes {
		k.remove(w)
		return
	}
	k.failing.Fail(w, k.now, code, message)
	if w.state = state; state == damaged {
		return
	}
	pause := k.sweep.Jitter.Pause(w.Times, k.cfg.RetryMin, k.cfg.RetryMax)
	// Invariant: a reminder that fails does not delay other reminders. If a periodic reminder is late, it fires once
	// for all the due times that have passed. This firing carries the number of missed due times.
	// Guarded by: `wakeup.Keeper` pauses after each failure of a reminder. The pause grows with each failure in a row.
	// Mutants: back-off, missed-count
	//mutant:do back-off pause = time.Millisecond
	k.failing.Retry(w, k.now.Add(pause))
}

// advance begins the retries, firings and reads that are due.
func (k *Keeper) advance() {
	for w, ok := k.failing.Due(k.now); ok; w, ok = k.failing.Due(k.now) {
		k.wait(w)
	}
	wall := k.wall()
	// Invariant: a reminder may fire late, but it never fires early by the clock of the journal's store. No reminder is
	// lost, however many are due.
	// Guarded by: `wakeup.Keeper` sweeps each shard again and again. If a wake-up changes while a page is read, the
	// Keeper uses the change and not the page. If it is unknown whether an append has changed wake-ups, the Keeper
	// sweeps the shard anew.
	// Mutants: fires-early, beyond-horizon, quiet, new-wake, page-older, in-doubt, no-clock
	//mutant:do fires-early wall += 1000
	for _, t := range k.types {
		for t.firingsUnderWay < k.cfg.Firings && len(t.due) > 0 && t.due[0].Due <= wall {
			w := t.due[0]
			if f := k.firings[w.Entity]; f != nil {
				k.block(w, f)
				continue
			}
			k.unwait(w)
			k.fire(w)
		}
	}
	k.scan()
}

// fire asks for the command of a wake-up to be run.
func (k *Keeper) fire(w *wake) {
	w.state = underWay
	k.firings[w.Entity] = &firing{shard: w.shard, wake: w, ref: w.WakeRef}
	w.shard.typ.firingsUnderWay++
	wakeup := turn.Wakeup{WakeRef: w.WakeRef, Due: w.Due, Input: w.Input}
	wall := k.wall()
	wakeup.Late = time.Duration(max(0, wall-w.Due)) * time.Millisecond
	wakeup.Next, wakeup.Missed = next(w.Due, w.Period, wall)
	k.out.Fires = append(k.out.Fires, turn.Fire{Shard: w.shard.ID, Epoch: w.shard.Epoch, Entity: w.Entity, Wakeup: wakeup})
}

// next returns the next due time of a wake-up that fires now; 0: none. The parameter due is the due
// time of the present firing. The result missed is the number of later due times that have also
// passed by now.
func next(due, period, now int64) (next, missed int64) {
	if period <= 0 {
		return 0, 0
	}
	missed = max(0, now-due) / period
	next = due + (missed+1)*period
	//mutant:do missed-count return due + period, 0
	return next, missed
}

// Stats returns the current counts.
func (k *Keeper) Stats() Stats {
	s := k.stats
	s.Wakes, s.Firing, s.Failing, s.ReadsFailed = k.wakes, len(k.firings), k.failing.Len(), k.sweep.Failed
	for _, t := range k.types {
		if w, found := t.due.Find(func(w *wake) bool { return w.Times == 0 }); found {
			s.Overdue = max(s.Overdue, time.Duration(k.wall()-w.Due)*time.Millisecond)
		}
	}
	return s
}
