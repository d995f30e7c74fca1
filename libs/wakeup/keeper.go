package wakeup

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Keeper decides when the wake-ups of the open shards fire. It is not safe for concurrent
// use.
type Keeper struct {
	cfg    Config
	shards []*shard // in no order
	byID   map[sharding.ShardID]*shard
	types  []*typeQueue // in the order in which they were first opened
	// firings has the firing under way of each entity: an entity has at most one.
	firings map[sharding.Entity]*firing
	retries priority.Queue[*row] // the failing rows, by the time at which they are tried again
	// reads are the reads under way, by number.
	reads       map[uint64]*reading
	lastRead    uint64            // number of the last read
	reserved    int               // how many rows the reads under way may bring
	failedReads int               // number of reads that have failed since the last one that succeeded
	readsAfter  time.Time         // no read begins before this time
	scanAt      time.Time         // when the shards are next scanned for those to be read; zero: never
	scanFrom    int               // where in shards the next scan begins
	noRoom      bool              // a shard waits to be read until rows have left the memory
	rows        int               // number of rows in memory
	failing     map[*row]struct{} // the rows in memory that are failing
	blocked     int               // number of rows that are blocked and not failing
	lastOrder   uint64            // the last row.order that was given
	jitter      backoff.Jitter
	// storeClock is the time of the store's clock in the newest page, in Unix milliseconds.
	storeClock int64
	// storeClockAt is when that page arrived here.
	storeClockAt time.Time
	stats        Stats
	now          time.Time
	out          *Outputs
}

// typeQueue has the wake-ups of one entity type that wait for their time.
type typeQueue struct {
	name   sharding.EntityType
	due    priority.Queue[*row] // the waiting rows, by due time
	firing int                  // how many firings are under way
}

// shard is an open shard.
type shard struct {
	id      sharding.ShardID
	epoch   sharding.Epoch
	typ     *typeQueue
	closed  bool
	rows    map[key]*row
	sweep   uint64    // number of the present sweep; between two sweeps, of the next one
	horizon int64     // earlier sweeps have read all rows that are due before this time
	after   Position  // how far the present sweep has come
	readAt  time.Time // when the next read begins at the earliest; zero: the shard is quiet
	reading bool      // a read is under way
	// empty says that the last sweep has found nothing that is due soon. The next read then asks
	// whether the shard has any reminder at all. If it has none, the shard is quiet: it is not read
	// until a reminder is set. While the shard is open here, only this process can set one.
	empty bool
	// sweepAgain says that the sweep must begin anew, because a wake-up that it has passed may
	// have changed.
	sweepAgain bool
	// changed has the wake-ups that have changed while the read was under way. The page of the
	// read may be older than these changes.
	changed     map[key]struct{}
	changedRows []Row // the newest rows of the wake-ups in changed that still exist
	// renewed has entities whose rows in the page of the read are ignored: while the read was under
	// way, they were deleted, or their wake-ups became unknown.
	renewed map[sharding.Entity]struct{}
	// outdated says that the whole page of the read is ignored: while the read was under way, more
	// has changed than could be noted.
	outdated    bool
	waitingRows int // number of rows that are waiting and not failing
}

// key names a wake-up in its shard.
type key struct {
	entity sharding.Entity
	kind   sharding.WakeKind
	name   string
}

// row is a wake-up in memory.
type row struct {
	Row
	shard *shard
	state rowState
	sweep uint64 // shard.sweep when the row was last read or set
	// The fields up to place are about the queue that the row is in.
	sortKey int64  // orders the queue
	order   uint64 // orders rows with the same sortKey: the order in which they were queued
	place   int    // where in the queue the row is
	// The fields below are about a row that is failing: it has failed, and has not fired since.
	failures              int
	failingSince, retryAt time.Time
	code                  sharding.Code // of the last failure
	message               string        // of the last failure
}

func (r *row) Before(o *row) bool {
	return cmp.Or(cmp.Compare(r.sortKey, o.sortKey), cmp.Compare(r.order, o.order)) < 0
}

func (r *row) Place() *int { return &r.place }

type rowState uint8

const (
	waiting  rowState = iota + 1 // in typeQueue.due
	blocked                      // due, and in firing.blocked: another firing of its entity is under way
	underWay                     // its firing is under way
	retrying                     // failing, in Keeper.retries
	damaged                      // failing, because it cannot be read
)

// firing is a firing under way: the keeper has asked for the command of a wake-up to be run,
// and does not know yet how the firing has ended.
type firing struct {
	shard   *shard
	row     *row
	ref     sharding.WakeRef // the setting of the wake-up that fires
	blocked []*row           // due rows of the same entity, which wait until this firing has ended
	more    bool             // other due rows of the entity were removed from memory, because too many rows are blocked
}

// reading is a read under way.
type reading struct {
	shards []*shard
	until  int64 // it reads what is due before this time
	any    bool  // it only asks whether the shards have any reminder at all
}

// New returns a keeper. The configuration must be valid.
func New(cfg Config) *Keeper {
	return &Keeper{
		cfg: cfg, byID: map[sharding.ShardID]*shard{}, firings: map[sharding.Entity]*firing{}, reads: map[uint64]*reading{},
		failing: map[*row]struct{}{}, jitter: backoff.Jitter(cfg.Seed),
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
			if !mutant.On("unknown-rows") {
				k.drop(s, e.Entity)
			}
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
	s := &shard{id: in.Shard, epoch: in.Epoch, typ: k.types[i], rows: map[key]*row{}, after: Position{Shard: in.Shard}, readAt: k.now}
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
	for _, r := range s.rows { // order-free: all are removed
		k.remove(r)
	}
	for e, f := range k.firings { // order-free: all of the shard are removed
		if f.shard == s {
			delete(k.firings, e)
			s.typ.firing--
		}
	}
}

// wall returns what the clock of the store says now, in Unix milliseconds.
func (k *Keeper) wall() int64 {
	if k.storeClockAt.IsZero() {
		return k.now.UnixMilli()
	}
	return k.storeClock + k.now.Sub(k.storeClockAt).Milliseconds()
}

// covered is the time up to which all wake-ups of the shard are in memory.
func (s *shard) covered() int64 { return max(s.horizon, s.after.Due) }

// add puts a wake-up into memory. If there is no room for it, a later sweep reads it again.
func (k *Keeper) add(s *shard, in *Row) {
	if k.rows >= k.cfg.Rows {
		k.restartSweep(s)
		return
	}
	r := &row{Row: *in, shard: s, sweep: s.sweep}
	s.rows[in.key()] = r
	k.rows++
	if r.Err != "" {
		k.fail(r, damaged, sharding.DataLoss, r.Err)
		return
	}
	k.wait(r)
}

func (r *Row) key() key { return key{entity: r.Entity, kind: r.Kind, name: r.Name} }

// wait queues a row until it is due.
func (k *Keeper) wait(r *row) {
	r.state = waiting
	k.push(&r.shard.typ.due, r, r.Due)
	if r.failures == 0 {
		r.shard.waitingRows++
	}
}

// unwait undoes wait.
func (k *Keeper) unwait(r *row) {
	r.shard.typ.due.Remove(r)
	if r.failures == 0 {
		r.shard.waitingRows--
		k.madeRoom()
	}
}

// push puts a row into a queue, behind those with the same sortKey.
func (k *Keeper) push(q *priority.Queue[*row], r *row, sortKey int64) {
	k.lastOrder++
	r.sortKey, r.order = sortKey, k.lastOrder
	q.Push(r)
}

// remove takes a row out of memory.
func (k *Keeper) remove(r *row) {
	switch r.state {
	case waiting:
		k.unwait(r)
	case retrying:
		k.retries.Remove(r)
	case blocked:
		k.unblock(r)
	}
	delete(k.failing, r)
	k.madeRoom()
	r.state = 0
	delete(r.shard.rows, r.key())
	k.rows--
}

// changed brings the rows in memory up to date after an append that has changed wake-ups.
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
		r := s.rows[id]
		switch {
		case f.Next == 0:
			k.replace(s, id, nil)
		case r == nil: // the row is not in memory any more, and the period is not known without it
			k.replace(s, id, nil)
			k.restartSweep(s)
		default:
			next := r.Row
			next.Number, next.Due = f.Number+1, f.Next
			k.replace(s, id, &next)
		}
	}
	for i := range e.Records {
		if e.Records[i].Delete && !mutant.On("deleted-rows") {
			k.drop(s, e.Entity)
		}
		for j := range e.Records[i].Wakes {
			w := &e.Records[i].Wakes[j]
			if w.Kind != sharding.ReminderWake {
				continue
			}
			id := key{entity: e.Entity, kind: w.Kind, name: w.Name}
			if w.Due == 0 {
				k.replace(s, id, nil)
				continue
			}
			k.replace(s, id, &Row{
				Shard: s.id, Entity: e.Entity, Due: w.Due, Period: w.Period, Input: w.Input,
				WakeRef: sharding.WakeRef{Kind: w.Kind, Name: w.Name, Seq: e.Records[i].Seq, Number: w.Number},
			})
		}
	}
}

// replace replaces the row of a wake-up after the journal has changed it. newest is the row that the
// journal has now; nil: it has none. The old row is removed from memory. The newest row is added only
// if it is due before the time up to which memory has all rows; otherwise a later sweep reads it.
func (k *Keeper) replace(s *shard, id key, newest *Row) {
	if old := s.rows[id]; old != nil {
		k.remove(old)
	}
	if s.reading && !mutant.On("page-older") {
		if len(s.changed) >= k.cfg.Rows {
			s.outdated = !mutant.On("page-outdated")
		} else {
			s.changed[id] = struct{}{}
			s.changedRows = slices.DeleteFunc(s.changedRows, func(r Row) bool { return r.key() == id })
			if newest != nil {
				s.changedRows = append(s.changedRows, *newest)
			}
		}
	}
	if newest != nil && (s.empty || s.readAt.IsZero()) && !mutant.On("quiet") {
		k.restartSweep(s)
	}
	if newest != nil && newest.Due <= s.covered() && !mutant.On("new-wake") {
		k.add(s, newest)
	}
}

// ended applies the end of a firing to the rows in memory, and lets other rows of the entity fire.
func (k *Keeper) ended(e *turn.FiringEnded) {
	f := k.firings[e.Entity]
	if f == nil || f.shard.id != e.Shard || f.shard.epoch != e.Epoch || f.ref != e.Ref {
		return
	}
	delete(k.firings, e.Entity)
	f.shard.typ.firing--
	unchanged := f.row.state == underWay // no WakesChanged has replaced or removed the row
	switch e.End {
	case turn.FiringDone:
		k.stats.Fired++
		if unchanged { // a WakesChanged should have come first; the sweep reads what the journal has now
			k.remove(f.row)
			k.restartSweep(f.shard)
		}
	case turn.FiringFailed:
		k.stats.Failed++
		if unchanged {
			k.fail(f.row, retrying, e.Code, e.Message)
		}
	default:
		if e.End == turn.FiringObsolete {
			k.stats.Obsolete++
		}
		if unchanged {
			k.remove(f.row)
		}
		if !mutant.On("in-doubt") {
			k.restartSweep(f.shard)
		}
	}
	for _, r := range f.blocked {
		if r.state == blocked {
			k.unblock(r)
			k.wait(r)
		}
	}
	if f.more && !mutant.On("blocked-left") {
		k.restartSweep(f.shard)
	}
}

// block makes a due row wait until the firing of its entity has ended. If too many rows wait in
// this way, the row is removed from memory instead; when the firing has ended, a sweep reads it
// again.
func (k *Keeper) block(r *row, f *firing) {
	if r.failures == 0 && k.blocked >= k.cfg.BlockedRows {
		f.more = true
		k.remove(r)
		return
	}
	k.unwait(r)
	if r.state = blocked; r.failures == 0 {
		k.blocked++
	}
	f.blocked = append(f.blocked, r)
}

// unblock undoes what block has counted.
func (k *Keeper) unblock(r *row) {
	if r.failures == 0 {
		k.blocked--
	}
}

// fail notes a failure of a row, and queues the row to be tried again unless it is damaged. If too
// many rows are failing already, the row is removed from memory, and a later sweep reads it again.
func (k *Keeper) fail(r *row, state rowState, code sharding.Code, message string) {
	if r.failures == 0 {
		if len(k.failing) >= k.cfg.FailingRows {
			k.remove(r)
			return
		}
		k.failing[r] = struct{}{}
		r.failingSince = k.now
	}
	r.failures++
	r.state, r.code, r.message = state, code, message
	if state == damaged {
		return
	}
	if r.retryAt = k.now.Add(k.pause(r.failures)); mutant.On("back-off") {
		r.retryAt = k.now.Add(time.Millisecond)
	}
	k.push(&k.retries, r, r.retryAt.UnixNano())
}

// pause returns how long to wait after this many failures, one after the other.
func (k *Keeper) pause(failures int) time.Duration {
	return k.jitter.Pause(failures, k.cfg.RetryMin, k.cfg.RetryMax)
}

// advance begins what is due: retries, firings and reads.
func (k *Keeper) advance() {
	for len(k.retries) > 0 && !k.retries[0].retryAt.After(k.now) {
		r := k.retries[0]
		k.retries.Remove(r)
		k.wait(r)
	}
	wall := k.wall()
	if mutant.On("fires-early") {
		wall += 1000
	}
	for _, t := range k.types {
		for t.firing < k.cfg.Firings && len(t.due) > 0 && t.due[0].Due <= wall {
			r := t.due[0]
			if f := k.firings[r.Entity]; f != nil {
				k.block(r, f)
				continue
			}
			k.unwait(r)
			k.fire(r)
		}
	}
	k.scan()
}

// fire asks for the command of a wake-up to be run.
func (k *Keeper) fire(r *row) {
	r.state = underWay
	k.firings[r.Entity] = &firing{shard: r.shard, row: r, ref: r.WakeRef}
	r.shard.typ.firing++
	w := turn.Wakeup{WakeRef: r.WakeRef, Due: r.Due, Input: r.Input}
	wall := k.wall()
	w.Late = time.Duration(max(0, wall-r.Due)) * time.Millisecond
	w.Next, w.Missed = next(r.Due, r.Period, wall)
	k.out.Fires = append(k.out.Fires, turn.Fire{Shard: r.shard.id, Epoch: r.shard.epoch, Entity: r.Entity, Wakeup: w})
}

// next returns when a wake-up that fires now is due again; 0: never. The wake-up was due at the time
// due. missed is how many more times it was due after that, up to now, without firing.
func next(due, period, now int64) (next, missed int64) {
	if period <= 0 {
		return 0, 0
	}
	missed = max(0, now-due) / period
	next = due + (missed+1)*period
	if mutant.On("missed-count") {
		return due + period, 0
	}
	return next, missed
}

// Stats returns the current counts.
func (k *Keeper) Stats() Stats {
	s := k.stats
	s.Rows, s.Firing, s.Failing = k.rows, len(k.firings), len(k.failing)
	return s
}
