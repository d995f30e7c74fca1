package wakeup

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/storeclock"
	"github.com/roost-cluster/roost/libs/turn"
)

// Keeper decides when the wake-ups of the open shards fire. It is not safe for concurrent
// use.
type Keeper struct {
	cfg    Config
	shards []*shard // in no order
	byID   map[sharding.ShardID]*shard
	types  []*typeQueue // in the order in which they were first opened
	// firings has the firing in progress of each entity: an entity has at most one.
	firings map[sharding.Entity]*firing
	retries priority.Queue[*wake] // the failing wake-ups, by the time at which they are tried again
	// reads are the reads in progress, by number.
	reads       map[uint64]*reading
	lastRead    uint64             // number of the last read
	reserved    int                // how many wake-ups the reads in progress may bring
	failedReads int                // number of reads that have failed since the last one that succeeded
	readsAfter  time.Time          // no read begins before this time
	scanAt      time.Time          // when the shards are next scanned for those to be read; zero: never
	scanFrom    int                // where in shards the next scan begins
	noRoom      bool               // some shard cannot be read before wake-ups have left the memory
	wakes       int                // number of wake-ups in memory
	failing     map[*wake]struct{} // the wake-ups in memory that are failing
	blocked     int                // number of wake-ups that are blocked and not failing
	lastOrder   uint64             // the last wake.order that was given
	jitter      backoff.Jitter
	clock       storeclock.Clock
	stats       Stats
	now         time.Time
	out         *Outputs
}

// typeQueue has the wake-ups in memory of one entity type that wait for their time.
type typeQueue struct {
	name            sharding.EntityType
	due             priority.Queue[*wake] // the waiting wake-ups, by due time
	firingsUnderWay int
}

// shard is an open shard.
type shard struct {
	id      sharding.ShardID
	epoch   sharding.Epoch
	typ     *typeQueue
	closed  bool
	wakes   map[key]*wake
	sweep   uint64               // the number of the present sweep; between two sweeps, the number of the next sweep
	horizon int64                // earlier sweeps have read all wake-ups that are due before this time
	after   journal.WakePosition // how far the present sweep has come
	readAt  time.Time            // when the next read begins at the earliest; zero: the shard is quiet
	reading bool                 // a read is in progress
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
	changedWakes []journal.WakeRow // the wake-ups in changed that still exist, as they are now
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
	journal.WakeRow
	shard *shard
	state wakeState
	sweep uint64 // shard.sweep when the wake-up was last read or set
	// The fields up to place are about the queue that the wake-up is in.
	sortKey int64  // orders the queue
	order   uint64 // orders wake-ups with the same sortKey: the order in which they were queued
	place   int    // where in the queue the wake-up is
	// The fields below are about a wake-up that is failing: it has failed, and has not fired since.
	failures              int
	failingSince, retryAt time.Time
	code                  sharding.Code // of the last failure
	message               string        // of the last failure
}

func (w *wake) Before(o *wake) bool {
	return cmp.Or(cmp.Compare(w.sortKey, o.sortKey), cmp.Compare(w.order, o.order)) < 0
}

func (w *wake) Place() *int { return &w.place }

type wakeState uint8

const (
	waiting  wakeState = iota + 1 // in typeQueue.due
	blocked                       // due, and in firing.blocked: another firing of its entity is in progress
	underWay                      // its firing is in progress
	retrying                      // failing, in Keeper.retries
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

// reading is a read in progress.
type reading struct {
	asked  time.Time
	shards []*shard
	until  int64 // it reads the wake-ups that are due before this time
	any    bool  // it only asks whether the shards have any reminder at all
}

// New returns a keeper. The configuration must be valid.
func New(cfg Config) *Keeper {
	return &Keeper{
		cfg: cfg, byID: map[sharding.ShardID]*shard{}, firings: map[sharding.Entity]*firing{}, reads: map[uint64]*reading{},
		failing: map[*wake]struct{}{}, jitter: backoff.Jitter(cfg.Seed),
	}
}

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
		if s := k.shard(e.Shard, e.Epoch); s != nil {
			k.drop(s, e.Entity) //mutant:skip unknown-rows
			k.restartSweep(s)
		}
	case turn.FiringEnded:
		k.ended(&e)
	}
}

// shard returns the shard if it is open at the epoch, else nil.
func (k *Keeper) shard(id sharding.ShardID, epoch sharding.Epoch) *shard {
	if s := k.byID[id]; s != nil && s.epoch == epoch {
		return s
	}
	return nil
}

func (k *Keeper) open(in Open) {
	k.close(in.Shard)
	i := slices.IndexFunc(k.types, func(t *typeQueue) bool { return t.name == in.Shard.Type })
	if i < 0 {
		i = len(k.types)
		k.types = append(k.types, &typeQueue{name: in.Shard.Type})
	}
	s := &shard{id: in.Shard, epoch: in.Epoch, typ: k.types[i], wakes: map[key]*wake{}, readAt: k.now}
	k.byID[in.Shard] = s
	k.shards = append(k.shards, s)
	k.scanBy(k.now)
}

func (k *Keeper) close(id sharding.ShardID) {
	s := k.byID[id]
	if s == nil {
		return
	}
	s.closed = true
	delete(k.byID, id)
	k.shards = slices.DeleteFunc(k.shards, func(o *shard) bool { return o == s })
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
func (k *Keeper) wall() int64 { return k.clock.Now(k.now).UnixMilli() }

// SetClock sets the estimate of the store's clock. The driver calls it before the first shard is open: until a clock is
// known, wake-ups are set and due by the clock of this process.
func (k *Keeper) SetClock(c storeclock.Clock) { k.clock = c }

// Clock returns the latest time that the store's clock may show at a time of this process; false if the clock is not known.
// A wake-up that is set some time ahead counts from this time. It is due by the earliest one, so it never waits for less.
// If it were set by another clock, it would fire too early, or too late, by as much as the two differ.
func (k *Keeper) Clock() (store, at time.Time, known bool) {
	store = k.clock.Latest(k.now)
	// Invariant: a reminder that is set some time ahead waits for that time, however much the clocks of the region's
	// machine and of the journal's store differ.
	// Guarded by: `storeclock.Clock` has the earliest and the latest time that the store's clock may show, and a late
	// reading does not set them back. `wakeup.Keeper.Clock`: `RemindAfter` and `RemindEvery` count from the latest
	// time, and the Keeper fires by the earliest.
	// Mutants: two-clocks, set-by-earliest, late-reading
	//mutant:do set-by-earliest store = k.clock.Now(k.now)
	//mutant:false two-clocks k.clock.Known()
	return store, k.now, k.clock.Known()
}

// covered returns the end of the covered time: every wake-up of the shard that is due earlier is in
// memory.
func (s *shard) covered() int64 { return max(s.horizon, s.after.Due) }

// add puts a wake-up into memory. If there is no room for it, a later sweep reads it again.
func (k *Keeper) add(s *shard, in *journal.WakeRow) {
	if k.wakes >= k.cfg.Wakes {
		k.restartSweep(s)
		return
	}
	w := &wake{WakeRow: *in, shard: s, sweep: s.sweep}
	s.wakes[keyOf(in)] = w
	k.wakes++
	if w.Err != nil {
		k.fail(w, damaged, sharding.DataLoss, w.Err.Error())
		return
	}
	k.wait(w)
}

func keyOf(w *journal.WakeRow) key { return key{entity: w.Entity, kind: w.Kind, name: w.Name} }

// wait queues a wake-up until it is due.
func (k *Keeper) wait(w *wake) {
	w.state = waiting
	k.push(&w.shard.typ.due, w, w.Due)
	if w.failures == 0 {
		w.shard.waitingWakes++
	}
}

// unwait undoes wait.
func (k *Keeper) unwait(w *wake) {
	w.shard.typ.due.Remove(w)
	if w.failures == 0 {
		w.shard.waitingWakes--
		k.madeRoom()
	}
}

// push puts a wake-up into a queue, behind those with the same sortKey.
func (k *Keeper) push(q *priority.Queue[*wake], w *wake, sortKey int64) {
	k.lastOrder++
	w.sortKey, w.order = sortKey, k.lastOrder
	q.Push(w)
}

// remove takes a wake-up out of memory.
func (k *Keeper) remove(w *wake) {
	switch w.state {
	case waiting:
		k.unwait(w)
	case retrying:
		k.retries.Remove(w)
	case blocked:
		k.unblock(w)
	}
	delete(k.failing, w)
	k.madeRoom()
	w.state = 0
	delete(w.shard.wakes, keyOf(&w.WakeRow))
	k.wakes--
}

// changed brings the wake-ups in memory up to date after an append that has changed wake-ups.
func (k *Keeper) changed(e *turn.WakesChanged) {
	s := k.shard(e.Shard, e.Epoch)
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
			next := w.WakeRow
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
			k.replace(s, id, &journal.WakeRow{
				Shard: s.id, Entity: e.Entity, Due: set.Due, Period: set.Period, Input: set.Input,
				WakeRef: sharding.WakeRef{Kind: set.Kind, Name: set.Name, Seq: e.Records[i].Seq, Number: set.Number},
			})
		}
	}
}

// replace brings a wake-up in memory up to date after the journal has changed it. The parameter newest
// is the wake-up that the journal has now; nil: the wake-up was removed. Memory has all wake-ups of
// the shard that are due before a certain time (method covered). If newest is due later, it is not
// added to memory: a later sweep reads it.
func (k *Keeper) replace(s *shard, id key, newest *journal.WakeRow) {
	if old := s.wakes[id]; old != nil {
		k.remove(old)
	}
	if s.reading { //mutant:false page-older
		if len(s.changed) >= k.cfg.Wakes {
			s.outdated = true //mutant:false page-outdated
		} else {
			s.changed[id] = struct{}{}
			s.changedWakes = slices.DeleteFunc(s.changedWakes, func(w journal.WakeRow) bool { return keyOf(&w) == id })
			if newest != nil {
				s.changedWakes = append(s.changedWakes, *newest)
			}
		}
	}
	if newest != nil && (s.empty || s.readAt.IsZero()) { //mutant:false quiet
		k.restartSweep(s)
	}
	if newest != nil && newest.Due <= s.covered() { //mutant:false new-wake
		k.add(s, newest)
	}
}

// ended applies the end of a firing to the wake-ups in memory, and lets other wake-ups of the entity fire.
func (k *Keeper) ended(e *turn.FiringEnded) {
	f := k.firings[e.Entity]
	if f == nil || f.shard.id != e.Shard || f.shard.epoch != e.Epoch || f.ref != e.Ref {
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
	if w.failures == 0 && k.blocked >= k.cfg.BlockedWakes {
		f.more = true
		k.remove(w)
		return
	}
	k.unwait(w)
	if w.state = blocked; w.failures == 0 {
		k.blocked++
	}
	f.blocked = append(f.blocked, w)
}

// unblock undoes what block has counted.
func (k *Keeper) unblock(w *wake) {
	if w.failures == 0 {
		k.blocked--
	}
}

// fail notes a failure of a wake-up, and queues the wake-up to be tried again unless it is damaged. If too
// many wake-ups are failing already, the wake-up is removed from memory, and a later sweep reads it again.
func (k *Keeper) fail(w *wake, state wakeState, code sharding.Code, message string) {
	if w.failures == 0 {
		if len(k.failing) >= k.cfg.FailingWakes {
			k.remove(w)
			return
		}
		k.failing[w] = struct{}{}
		w.failingSince = k.now
	}
	w.failures++
	w.state, w.code, w.message = state, code, message
	if state == damaged {
		return
	}
	w.retryAt = k.now.Add(k.pause(w.failures))
	// Invariant: a reminder that fails does not delay other reminders. If a periodic reminder is late, it fires once
	// for all the due times that have passed. This firing carries the number of missed due times.
	// Guarded by: `wakeup.Keeper` pauses after each failure of a reminder. The pause grows with each failure in a row.
	// Mutants: back-off, missed-count
	//mutant:do back-off w.retryAt = k.now.Add(time.Millisecond)
	k.push(&k.retries, w, w.retryAt.UnixNano())
}

// pause returns how long to wait after this many failures, one after the other.
func (k *Keeper) pause(failures int) time.Duration {
	return k.jitter.Pause(failures, k.cfg.RetryMin, k.cfg.RetryMax)
}

// advance begins the retries, firings and reads that are due.
func (k *Keeper) advance() {
	for len(k.retries) > 0 && !k.retries[0].retryAt.After(k.now) {
		w := k.retries[0]
		k.retries.Remove(w)
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
	k.out.Fires = append(k.out.Fires, turn.Fire{Shard: w.shard.id, Epoch: w.shard.epoch, Entity: w.Entity, Wakeup: wakeup})
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
	s.Wakes, s.Firing, s.Failing = k.wakes, len(k.firings), len(k.failing)
	for _, t := range k.types {
		if w, found := t.due.Find(func(w *wake) bool { return w.failures == 0 }); found {
			s.Overdue = max(s.Overdue, time.Duration(k.wall()-w.Due)*time.Millisecond)
		}
	}
	return s
}
