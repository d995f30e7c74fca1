package wakeup

import (
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
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
	// firings has the one of each entity.
	firings map[sharding.Entity]*firing
	retries rowHeap // of failing rows, by when they are tried again
	// reads are under way.
	reads      map[uint64]*reading
	lastRead   uint64
	reserved   int       // rows that they may bring
	scanAt     time.Time // when the shards are looked at again; zero: never
	readPause  int       // failed reads in a row
	readsAfter time.Time // no read begins before
	scanFrom   int       // where the next scan of the shards begins
	noRoom     bool      // a shard waits until rows have left the memory
	rows       int
	failing    int
	lastOrder  uint64
	random     uint64
	// The clock of the store was clock, in Unix milliseconds, at clockAt.
	clock   int64
	clockAt time.Time
	stats   Stats
	now     time.Time
	out     *Outputs
}

// typeQueue has what is due of one entity type.
type typeQueue struct {
	name   sharding.EntityType
	due    rowHeap // by due time
	firing int
}

// shard is an open shard.
type shard struct {
	id      sharding.ShardID
	epoch   sharding.Epoch
	typ     *typeQueue
	closed  bool
	rows    map[key]*row
	horizon int64     // up to when the last sweep has read
	after   Position  // how far this sweep has come
	readAt  time.Time // when the next read begins at the earliest
	reading bool
	// again says that the sweep must begin anew: something is not known.
	again bool
	// changed is what has become durable during the read under way: the page may be older.
	changed map[key]bool
	set     []Row // of changed, those that stand
	ready   int   // rows that are not failing
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
	at    int64 // place in its heap
	order uint64
	index int // in its heap
	// Of one that has failed.
	times          int
	since, retryAt time.Time
	code           sharding.Code
	message        string
}

type rowState uint8

const (
	waiting  rowState = iota + 1 // in typeQueue.due
	blocked                      // due, behind another firing of its entity
	underWay                     // its firing is under way
	retrying                     // failing, in Keeper.retries
	damaged                      // failing: it cannot be read
)

// firing is the one that is under way of an entity.
type firing struct {
	shard   *shard
	row     *row
	ref     sharding.WakeRef
	blocked []*row
}

// reading is a read under way.
type reading struct {
	shards []*shard
	until  int64
}

// New returns a keeper. The configuration must be valid.
func New(cfg Config) *Keeper {
	return &Keeper{
		cfg: cfg, byID: map[sharding.ShardID]*shard{}, firings: map[sharding.Entity]*firing{}, reads: map[uint64]*reading{},
		random: cfg.Seed,
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

// Told does what Step does for an event of the [turn.Machine]: a [turn.WakesChanged], a
// [turn.WakesUnknown] or a [turn.FiringEnded]. It ignores all others.
func (k *Keeper) Told(now time.Time, e turn.ShardEvent, out *Outputs) {
	k.now, k.out = now, out
	switch e := e.(type) {
	case turn.WakesChanged:
		k.changed(&e)
	case turn.WakesUnknown:
		if s := k.shard(e.Shard, e.Epoch); s != nil {
			k.sweepAgain(s)
		}
	case turn.FiringEnded:
		k.ended(&e)
	}
	k.advance()
	k.out = nil
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

// wall is the clock of the store, in Unix milliseconds.
func (k *Keeper) wall() int64 {
	if k.clockAt.IsZero() {
		return k.now.UnixMilli()
	}
	return k.clock + k.now.Sub(k.clockAt).Milliseconds()
}

// covered is the time up to which all wake-ups of the shard are in memory.
func (s *shard) covered() int64 { return max(s.horizon, s.after.Due) }

// add puts a wake-up into memory, if there is room. Else the next sweep reads it.
func (k *Keeper) add(s *shard, in *Row) {
	if k.rows >= k.cfg.Rows {
		k.sweepAgain(s)
		return
	}
	r := &row{Row: *in, shard: s}
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
	if r.times == 0 {
		r.shard.ready++
	}
	r.shard.typ.due.push(r, r.Due, k.order())
}

func (k *Keeper) order() uint64 { k.lastOrder++; return k.lastOrder }

// remove takes a row out of memory.
func (k *Keeper) remove(r *row) {
	switch r.state {
	case waiting:
		r.shard.typ.due.remove(r)
	case retrying:
		k.retries.remove(r)
	}
	if r.times > 0 {
		k.failing--
	} else {
		r.shard.ready--
	}
	k.madeRoom()
	r.state = 0
	delete(r.shard.rows, r.key())
	k.rows--
}

// changed takes in what an append has done to wake-ups.
func (k *Keeper) changed(e *turn.WakesChanged) {
	s := k.shard(e.Shard, e.Epoch)
	if s == nil {
		return
	}
	for _, f := range e.Fired {
		if f.Kind != sharding.TimerWake {
			continue
		}
		id := key{entity: e.Entity, kind: f.Kind, name: f.Name}
		r := s.rows[id]
		switch {
		case f.Next == 0:
			k.replace(s, id, nil)
		case r == nil: // it was forgotten meanwhile
			k.replace(s, id, nil)
			k.sweepAgain(s)
		default:
			next := r.Row
			next.Number, next.Due = f.Number+1, f.Next
			k.replace(s, id, &next)
		}
	}
	for i := range e.Records {
		for j := range e.Records[i].Wakes {
			w := &e.Records[i].Wakes[j]
			if w.Kind != sharding.TimerWake {
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

// replace makes memory what the journal has of a wake-up; nil: there is none.
func (k *Keeper) replace(s *shard, id key, now *Row) {
	if old := s.rows[id]; old != nil {
		k.remove(old)
	}
	if s.reading && !mutant.On("page-older") {
		if len(s.changed) >= k.cfg.Rows {
			s.again = true
		} else {
			s.changed[id] = now != nil
			s.set = slices.DeleteFunc(s.set, func(r Row) bool { return r.key() == id })
			if now != nil {
				s.set = append(s.set, *now)
			}
		}
	}
	if now != nil && now.Due <= s.covered() && !mutant.On("new-wake") {
		k.add(s, now)
	}
}

// ended takes in how a firing has ended.
func (k *Keeper) ended(e *turn.FiringEnded) {
	f := k.firings[e.Entity]
	if f == nil || f.shard.id != e.Shard || f.shard.epoch != e.Epoch || f.ref != e.Ref {
		return
	}
	delete(k.firings, e.Entity)
	f.shard.typ.firing--
	stands := f.row.state == underWay
	switch e.End {
	case turn.FiringDone:
		k.stats.Fired++
		if stands { // nothing said that it is durable
			k.remove(f.row)
			k.sweepAgain(f.shard)
		}
	case turn.FiringFailed:
		k.stats.Failed++
		if stands {
			k.fail(f.row, retrying, e.Code, e.Message)
		}
	default:
		if e.End == turn.FiringObsolete {
			k.stats.Obsolete++
		}
		if stands {
			k.remove(f.row)
		}
		if !mutant.On("in-doubt") {
			k.sweepAgain(f.shard)
		}
	}
	for i, r := range f.blocked {
		if r.state == blocked {
			k.fire(r, f.blocked[i+1:])
			return
		}
	}
}

// fail queues a row to be tried again. If too many fail, it is left to the next sweep.
func (k *Keeper) fail(r *row, state rowState, code sharding.Code, message string) {
	if r.times == 0 {
		if k.failing >= k.cfg.FailingRows {
			if r.state == 0 {
				r.shard.ready++ // as remove expects
			}
			k.remove(r)
			return
		}
		if r.state != 0 {
			r.shard.ready--
			k.madeRoom()
		}
		k.failing++
		r.since = k.now
	}
	r.times++
	r.state, r.code, r.message = state, code, message
	if state == damaged {
		return
	}
	if r.retryAt = k.now.Add(k.pause(r.times)); mutant.On("back-off") {
		r.retryAt = k.now.Add(time.Millisecond)
	}
	k.retries.push(r, r.retryAt.UnixNano(), k.order())
}

// pause is how long to wait after a number of failures.
func (k *Keeper) pause(times int) time.Duration {
	d := k.cfg.RetryMin
	for i := 1; i < times && d < k.cfg.RetryMax; i++ {
		d *= 2
	}
	d = min(d, k.cfg.RetryMax)
	k.random += 0x9e3779b97f4a7c15 // splitmix64
	x := k.random
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return d - time.Duration(x%uint64(d/2+1))
}

// advance begins what is due: retries, firings and reads.
func (k *Keeper) advance() {
	for len(k.retries) > 0 && !k.retries[0].retryAt.After(k.now) {
		r := k.retries[0]
		k.retries.remove(r)
		k.wait(r)
	}
	wall := k.wall()
	if mutant.On("fires-early") {
		wall += 1000
	}
	for _, t := range k.types {
		for t.firing < k.cfg.Firings && len(t.due) > 0 && t.due[0].Due <= wall {
			r := t.due[0]
			t.due.remove(r)
			if f := k.firings[r.Entity]; f != nil {
				r.state = blocked
				f.blocked = append(f.blocked, r)
				continue
			}
			k.fire(r, nil)
		}
	}
	k.scan()
}

// fire has the command of a wake-up run. Others of its entity that are due wait for it.
func (k *Keeper) fire(r *row, behind []*row) {
	r.state = underWay
	k.firings[r.Entity] = &firing{shard: r.shard, row: r, ref: r.WakeRef, blocked: behind}
	r.shard.typ.firing++
	w := turn.Wakeup{WakeRef: r.WakeRef, Due: r.Due, Input: r.Input}
	wall := k.wall()
	w.Late = time.Duration(max(0, wall-r.Due)) * time.Millisecond
	w.Next, w.Missed = next(r.Due, r.Period, wall)
	k.out.Fires = append(k.out.Fires, turn.Fire{Shard: r.shard.id, Epoch: r.shard.epoch, Entity: r.Entity, Wakeup: w})
}

// next returns when a wake-up that fires now is due again, 0 if never, and how many times it
// was due before that and did not fire.
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
	s.Rows, s.Firing, s.Failing = k.rows, len(k.firings), k.failing
	return s
}

// Failing returns the wake-ups whose commands have failed and will run again, at most limit
// of them: those of the entity, or of all if it is zero, longest failing first.
func (k *Keeper) Failing(of sharding.Entity, limit int) []Failing {
	var list []Failing
	for _, s := range k.shards {
		if of.Type != "" && of.Type != s.id.Type {
			continue
		}
		for _, r := range s.rows { // order-free: sorted below
			if r.times == 0 || of.ID != "" && r.Entity != of {
				continue
			}
			list = append(list, Failing{
				Entity: r.Entity, Name: r.Name, Command: r.Input.Command, Due: time.UnixMilli(r.Due), Since: r.since,
				Times: r.times, Next: r.retryAt, Code: r.code, Message: r.message,
			})
		}
	}
	slices.SortFunc(list, func(a, b Failing) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		if c := a.Entity.Compare(b.Entity); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list[:min(limit, len(list))]
}
