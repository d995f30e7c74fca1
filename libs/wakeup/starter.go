package wakeup

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Starter decides when the remembered entities of the open shards are started. The entities that were
// active most recently come first. For each shard, the Starter holds a page of wake-ups. When all
// entities of the page have been started, it reads the next page. It is not safe for concurrent use.
type Starter struct {
	cfg   StartConfig
	sweep due.Sweeper[*startShard, journal.WakeEntry]
	types []*startType // in the order in which they were first opened
	// starts has the entities that are being started, or will be started again.
	starts   map[sharding.Entity]*start
	failing  due.Failing[*start]
	underWay int
	wakes    int // number of wake-ups in memory
	stats    StartStats
	now      time.Time
	out      *Outputs
}

// startType has the shards of one entity type.
type startType struct {
	name      sharding.EntityType
	ready     priority.Queue[*startShard] // the shards with wake-ups in memory, by the activity of their first wake-up
	again     []*start                    // the starts that are to be tried again, and whose pause is over
	alternate bool                        // the next start is taken from again, unless again is empty
	underWay  int
	credit    int       // StartConstant: how many entities may still be started before nextAt
	nextAt    time.Time // StartConstant: when there is more credit
	busyTill  time.Time // nothing is started before this time, because the limits left no room
}

// startShard is an open shard.
type startShard struct {
	due.Shard
	typ   *startType
	page  []journal.WakeEntry  // the wake-ups whose entities are not started yet, in order
	after journal.WakePosition // how far the present sweep has come
	next  bool                 // when the page is used up, the shard is read
	again bool                 // another sweep is needed, because too many failed entities were to be held in memory
	place int                  // in startType.ready
}

// start is an entity that is being started, or will be started again.
type start struct {
	shard    *startShard
	entity   sharding.Entity
	underWay bool
	queued   bool // in startType.again
	due.Failure
}

func (s *start) Owner() sharding.Entity { return s.entity }
func (s *start) Compare(o *start) int   { return s.entity.Compare(o.entity) }

// Before orders shards by the last activity of the first entity of their pages, the latest first.
func (s *startShard) Before(o *startShard) bool {
	a, b := &s.page[0], &o.page[0]
	//mutant:do activity-order return a.Due > b.Due
	return cmp.Or(cmp.Compare(a.Due, b.Due), a.Entity.Compare(b.Entity)) < 0
}

func (s *startShard) Place() *int { return &s.place }

// StartStats describes what the starter holds, and counts since its start.
type StartStats struct {
	Wakes    int // wake-ups in memory
	Starting int // starts in progress
	Failing  int // entities that will be started again after a failure
	Started  uint64
	Failed   uint64
	// ReadsFailed counts reads that failed.
	ReadsFailed uint64
}

// Add adds the counts of another starter.
func (s *StartStats) Add(o StartStats) {
	s.Wakes += o.Wakes
	s.Starting += o.Starting
	s.Failing += o.Failing
	s.Started += o.Started
	s.Failed += o.Failed
	s.ReadsFailed += o.ReadsFailed
}

// NewStarter returns a starter. The configuration must be valid.
func NewStarter(cfg StartConfig) *Starter {
	limits := due.Limits{ReadShards: cfg.ReadShards, RetryMin: cfg.ReadRetry, RetryMax: cfg.ReadRetry, DamagedMax: cfg.BackOffMax, Seed: cfg.Seed}
	return &Starter{cfg: cfg, sweep: due.New[*startShard](limits, shardOf), starts: map[sharding.Entity]*start{}}
}

// Step applies one input at time now, and appends to out what must be done. It takes the inputs
// of [Keeper.Step].
func (s *Starter) Step(now time.Time, in Input, out *Outputs) {
	s.now, s.out = now, out
	switch in := in.(type) {
	case Open:
		s.open(in)
	case Close:
		s.close(in.Shard)
	case Page:
		s.page(&in)
	case Tick:
	}
	s.advance()
	s.out = nil
}

// DiedMessage is the message about an entity that was alive and is no longer, although it should be. It can be started.
const DiedMessage = "it has died; the region's log has the error of its last turn"

// Observe takes an event of the [turn.Machine]: a [turn.StartEnded] or a [turn.RememberedLost].
// It ignores all others.
func (s *Starter) Observe(now time.Time, e turn.ShardEvent, out *Outputs) {
	s.now, s.out = now, out
	switch e := e.(type) {
	case turn.StartEnded:
		s.ended(&e)
	case turn.RememberedLost:
		//mutant:false restart-lost
		if sh := s.sweep.At(e.Shard, e.Epoch); sh != nil && s.starts[e.Entity] == nil {
			st := &start{shard: sh, entity: e.Entity}
			s.starts[e.Entity] = st
			s.pause(st, sharding.Unavailable, DiedMessage)
		}
	default:
		return
	}
	s.advance()
	s.out = nil
}

func (s *Starter) open(in Open) {
	s.close(in.Shard)
	i := slices.IndexFunc(s.types, func(t *startType) bool { return t.name == in.Shard.Type })
	if i < 0 {
		i = len(s.types)
		s.types = append(s.types, &startType{name: in.Shard.Type})
	}
	s.sweep.Open(&startShard{Shard: due.Shard{ID: in.Shard, Epoch: in.Epoch, ReadAt: s.now}, typ: s.types[i], after: beginning})
}

// beginning is before the first wake-up of a remembered entity.
var beginning = journal.WakePosition{Due: math.MinInt64}

// sweepAgain schedules another sweep of a shard, if one is needed and the present sweep is over.
func (s *Starter) sweepAgain(sh *startShard) {
	if sh.again && !sh.next && sh.ReadAt.IsZero() && !sh.Reading {
		sh.again, sh.after = false, beginning
		s.sweep.ReadBy(sh, s.now.Add(s.cfg.BackOffMax))
	}
}

func (s *Starter) close(id sharding.ShardID) {
	sh, open := s.sweep.Close(id)
	if !open {
		return
	}
	if sh.typ.ready.Has(sh) {
		sh.typ.ready.Remove(sh)
	}
	s.wakes -= len(sh.page)
	s.sweep.MadeRoom(s.now)
	sh.page = nil
	for _, st := range s.starts { // order-free: all of the shard are removed
		if st.shard == sh {
			s.remove(st)
		}
	}
}

// remove removes the start of an entity from memory.
func (s *Starter) remove(st *start) {
	switch {
	case st.underWay:
		st.shard.typ.underWay--
		s.underWay--
	case st.queued:
		t := st.shard.typ
		t.again = slices.DeleteFunc(t.again, func(o *start) bool { return o == st })
	}
	s.failing.Clear(st)
	delete(s.starts, st.entity)
}

// ended handles the end of a start.
func (s *Starter) ended(e *turn.StartEnded) {
	st := s.starts[e.Entity]
	if st == nil || !st.underWay || st.shard.ID != e.Shard || st.shard.Epoch != e.Epoch {
		return
	}
	switch e.End {
	case turn.StartDone:
		s.stats.Started++
		s.remove(st)
	case turn.StartFailed:
		s.stats.Failed++
		s.land(st)
		s.pause(st, e.Code, e.Message)
	case turn.StartPostponed: // this is not a failure: the entity is started as soon as there is room
		s.land(st)
		st.queued = true
		t := st.shard.typ
		t.again = slices.Insert(t.again, 0, st)
		t.busyTill, t.alternate = s.now.Add(s.cfg.ReadRetry), true
	default:
		s.remove(st)
	}
}

// land is called when the start of an entity is not in progress any more.
func (s *Starter) land(st *start) {
	st.underWay = false
	st.shard.typ.underWay--
	s.underWay--
}

// pause schedules another start of an entity. If too many entities wait for another start, the entity
// is left to a later sweep of its shard.
func (s *Starter) pause(st *start, code sharding.Code, message string) {
	s.failing.Fail(st, s.now, code, message)
	if len(s.starts)-s.underWay > s.cfg.Failing {
		s.failing.Clear(st)
		delete(s.starts, st.entity)
		st.shard.again = true
		s.sweepAgain(st.shard)
		return
	}
	d := s.cfg.BackOff
	if st.Times > 1 {
		d = s.sweep.Jitter.Pause(st.Times, s.cfg.BackOff, s.cfg.BackOffMax)
	}
	//mutant:do restart-back-off d = 0
	s.failing.Retry(st, s.now.Add(d))
}

// advance starts the entities that may start now, and begins reads.
func (s *Starter) advance() {
	for st, ok := s.failing.Due(s.now); ok; st, ok = s.failing.Due(s.now) {
		st.queued = true
		st.shard.typ.again = append(st.shard.typ.again, st)
	}
	for _, t := range s.types {
		for s.mayStart(t) {
			st := s.next(t)
			if st == nil {
				break
			}
			st.underWay = true
			t.underWay++
			s.underWay++
			t.credit--
			s.out.Starts = append(s.out.Starts, turn.StartEntity{Shard: st.shard.ID, Epoch: st.shard.Epoch, Entity: st.entity})
		}
	}
	s.scan()
}

// catchUp bounds for how much lateness a step starts groups that were missed: a few ticks of the driver.
const catchUp = 50 * time.Millisecond

// maxLate is the largest lateness of a group that counts. With steps as rare as groups, one group is missed at a time.
func (c *StartConfig) maxLate() time.Duration { return max(2*c.Frequency, catchUp) }

// mayStart reports whether one more entity of the type may be started now.
func (s *Starter) mayStart(t *startType) bool {
	//mutant:false start-limit t.underWay >= s.cfg.Limit
	if t.underWay >= s.cfg.Limit || s.now.Before(t.busyTill) || len(t.ready) == 0 && len(t.again) == 0 {
		return false
	}
	if s.cfg.Strategy == StartAll { //mutant:true start-rate
		return true
	}
	if !s.now.Before(t.nextAt) {
		// The times of the groups stay: if they were counted from now, a step that comes a moment too early for a group would
		// delay all further groups. With steps as rare as groups, each group would wait for the second step. Such a step makes
		// up for the groups that were missed since the step before, up to maxLate. Older credit that was not used is lost.
		late := s.now.Sub(t.nextAt)
		if t.nextAt.IsZero() { //mutant:true start-grid
			late, t.nextAt = 0, s.now
		} else if most := s.cfg.maxLate(); late > most {
			late, t.nextAt = most, s.now.Add(-most)
		}
		groups := 1 + late/s.cfg.Frequency
		t.credit, t.nextAt = s.cfg.Number*int(groups), t.nextAt.Add(groups*s.cfg.Frequency)
	}
	return t.credit > 0
}

// next takes the entity of the type that is to be started next; nil: there is none. First starts and
// repeated starts alternate, so that neither kind waits until the other kind is done.
func (s *Starter) next(t *startType) *start {
	if len(t.again) > 0 && (t.alternate || len(t.ready) == 0) {
		st := t.again[0]
		t.again = t.again[1:]
		st.queued, t.alternate = false, false
		return st
	}
	t.alternate = true
	for len(t.ready) > 0 {
		sh := t.ready[0]
		t.ready.Remove(sh)
		r := sh.page[0]
		sh.page = sh.page[1:]
		s.wakes--
		s.sweep.MadeRoom(s.now)
		if len(sh.page) > 0 {
			t.ready.Push(sh)
		} else if sh.next {
			sh.next = false
			s.sweep.ReadBy(sh, s.now)
		}
		if s.starts[r.Entity] == nil { // otherwise the entity is being started, or will be started again
			st := &start{shard: sh, entity: r.Entity}
			s.starts[r.Entity] = st
			return st
		}
	}
	if len(t.again) > 0 {
		return s.next(t)
	}
	return nil
}
