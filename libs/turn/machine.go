package turn

import (
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Machine executes the entities of all shards that a region has opened. It is
// not safe for concurrent use.
type Machine struct {
	cfg    Config
	types  []*typeState // in the order of the configuration
	asked  *typeState   // the one that was asked for last
	places places
	lives  uint32 // number of the newest incarnation
	timers uint64 // number of the newest timer firing
	wakes  wakeHeap
	// sweepAt is how many wakes may gather before pointless ones are swept out.
	sweepAt int
	ord     uint64 // of the newest wake
	// nothing is the work of all entities that have none. It stays empty.
	nothing       *work
	recent        recent
	loads         loads
	spareWork     []*work
	spareCommands []*command // memory of those that were answered
	answers       []Answer   // given away since Recycle; memory for more
	stats         Stats
	now           time.Time
	out           []Output
}

// Stats counts what the core holds and what happened to it since its start.
type Stats struct {
	Entities     int // alive or on the way
	Commands     int // delivered, not answered
	Bytes        int // of those commands
	Loads        int // not answered by the driver
	Activations  uint64
	Passivations uint64
	Unknown      uint64 // appends whose outcome was unknown
	Duplicates   uint64 // commands answered with a stored or joined reply
	Abandoned    uint64 // turns given up at a drain time-out
	LostTells    uint64 // accepted tells and timer firings that were not done, or not with success
	Spoiled      uint64 // turns discarded after they had staged events
}

type typeState struct {
	Type
	shards []*shard // by index; nil: not open
	// entities are those of all shards: looking one up in a large map touches
	// less memory than finding its shard's small one.
	entities map[sharding.EntityID]*entity
	idle     idle
}

// shard is one opened shard.
type shard struct {
	id       sharding.ShardID
	epoch    sharding.Epoch
	phase    shardPhase
	typ      *typeState
	entities []*entity // in no order
	fence    fence
}

type shardPhase uint8

const (
	open     shardPhase = iota + 1
	draining            // finishes what it accepted
	aborting            // only settles what it handed over
)

// New makes a machine. The configuration must be valid.
func New(cfg Config) *Machine {
	m := &Machine{
		cfg:     cfg,
		places:  make(places, 1),
		sweepAt: minSweep,
		nothing: &work{},
		recent:  recent{size: cfg.RecentIDs},
		loads:   newLoads(),
	}
	for _, t := range cfg.Types {
		m.types = append(m.types, &typeState{
			Type: t, shards: make([]*shard, t.Desc.Shards), entities: map[sharding.EntityID]*entity{},
		})
	}
	return m
}

// Stats are the current counts.
func (m *Machine) Stats() Stats {
	s := m.stats
	s.Loads = len(m.loads.underway)
	return s
}

// Epoch is the epoch at which the shard is open, 0 if it is not.
func (m *Machine) Epoch(id sharding.ShardID) sharding.Epoch {
	if s := m.shard(id); s != nil {
		return s.epoch
	}
	return 0
}

// typ is the type of that name, nil if there is none. Commands for one type
// come many at a time, so the last one is kept at hand.
func (m *Machine) typ(name sharding.EntityType) *typeState {
	if m.asked != nil && m.asked.Desc.Type == name {
		return m.asked
	}
	for _, ts := range m.types {
		if ts.Desc.Type == name {
			m.asked = ts
			return ts
		}
	}
	return nil
}

// shard is the open shard of that name, nil if there is none.
func (m *Machine) shard(id sharding.ShardID) *shard {
	ts := m.typ(id.Type)
	if ts == nil || uint64(id.Index) >= uint64(len(ts.shards)) {
		return nil
	}
	return ts.shards[id.Index]
}

// NextWake is when the next Tick has something to do: a timer, a retry, a
// passivation. The zero time: nothing is planned.
func (m *Machine) NextWake() time.Time {
	var t time.Time
	if len(m.wakes) > 0 {
		t = m.wakes[0].at
	}
	for _, ts := range m.types {
		if e := m.places[ts.idle.front].entity; e != nil && ts.PassivateAfter > 0 {
			if at := e.touched.Add(ts.PassivateAfter); t.IsZero() || at.Before(t) {
				t = at
			}
		}
	}
	return t
}

// Step applies in at now and appends to out what the driver must do, in that
// order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out = now, out
	switch in := in.(type) {
	case Deliver:
		m.deliver(&in)
	case TurnDone:
		m.turnDone(&in)
	case Appended:
		m.appended(in)
	case FenceRead:
		m.fenceRead(in)
	case Loaded:
		m.loaded(&in)
	case LookedUp:
		m.lookedUp(in)
	case Stopped:
		m.stopped(in)
	case Open:
		m.open(in)
	case Drain:
		m.drain(in.Shard)
	case Abort:
		m.abort(in.Shard)
	case Tick:
		m.tick()
	}
	out = m.out
	m.out = nil
	return out
}

// Deliver is Step for the input of that name, which comes with every command:
// nothing is allocated to pass it.
func (m *Machine) Deliver(now time.Time, in *Deliver, out []Output) []Output {
	m.now, m.out = now, out
	m.deliver(in)
	out, m.out = m.out, nil
	return out
}

// TurnDone is Step for the input of that name, likewise.
func (m *Machine) TurnDone(now time.Time, in *TurnDone, out []Output) []Output {
	m.now, m.out = now, out
	m.turnDone(in)
	out, m.out = m.out, nil
	return out
}

// Loaded is Step for the input of that name, likewise.
func (m *Machine) Loaded(now time.Time, in *Loaded, out []Output) []Output {
	m.now, m.out = now, out
	m.loaded(in)
	out, m.out = m.out, nil
	return out
}

// Recycle says that the driver is done with every [Answer] so far: their memory
// is used again. A driver that never says so may keep them.
func (m *Machine) Recycle() {
	clear(m.answers)
	m.answers = m.answers[:0]
}

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

// emitAnswer answers a request. When there is no memory left, the next answers
// get another piece, of twice the size; those given away keep theirs.
func (m *Machine) emitAnswer(r RequestID, reply *sharding.Reply) {
	n := len(m.answers)
	if n == cap(m.answers) {
		m.answers, n = make([]Answer, 0, min(max(minAnswers, 2*n), maxAnswers)), 0
	}
	m.answers = m.answers[:n+1]
	m.answers[n] = Answer{Request: r, Reply: *reply}
	m.emit(&m.answers[n])
}

// minAnswers and maxAnswers are for how many answers memory is made at a time:
// for few if few come between two calls of Recycle, but never for more than a
// large batch of a driver has.
const (
	minAnswers = 8
	maxAnswers = 1024
)

// find gives the entity that an answer of the driver is about, or nil if the
// incarnation it speaks of has ended.
func (m *Machine) find(inc Incarnation) *entity {
	e := m.places.at(inc)
	if e == nil || e.inc != inc && !mutant.On("incarnation") {
		return nil
	}
	return e
}

func (m *Machine) tick() {
	for len(m.wakes) > 0 && !m.wakes[0].at.After(m.now) {
		m.wake(m.wakes.pop())
	}
	for _, ts := range m.types {
		if ts.PassivateAfter == 0 {
			continue
		}
		for {
			e := m.places[ts.idle.front].entity
			if e == nil || m.now.Sub(e.touched) < ts.PassivateAfter {
				break
			}
			m.stop(e, Passivated)
		}
	}
}
