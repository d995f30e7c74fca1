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
	types  map[sharding.EntityType]*typeState
	shards map[sharding.ShardID]*shard
	lastID Incarnation // of the newest incarnation
	timers uint64      // number of the newest timer firing
	wakes  wakeHeap
	// sweepAt is how many wakes may gather before pointless ones are swept out.
	sweepAt int
	ord     uint64 // of the newest wake
	// nothing is the work of all entities that have none. It stays empty.
	nothing       *work
	spareWork     []*work
	spareCommands []*command // memory of those that were answered
	stats         Stats
	now           time.Time
	out           []Output
}

// Stats counts what the core holds and what happened to it since its start.
type Stats struct {
	Entities     int // alive or on the way
	Commands     int // delivered, not answered
	Bytes        int // of those commands
	Activations  uint64
	Passivations uint64
	Unknown      uint64 // appends whose outcome was unknown
	Duplicates   uint64 // commands answered with a stored or joined reply
	Abandoned    uint64 // turns given up at a drain time-out
	LostTells    uint64 // accepted tells and timer firings that were not done
	Spoiled      uint64 // turns discarded after they had staged events
}

type typeState struct {
	Type
	idle list // entities with nothing to do, longest idle first
}

// shard is one opened shard.
type shard struct {
	id       sharding.ShardID
	epoch    sharding.Epoch
	phase    shardPhase
	typ      *typeState
	entities map[sharding.EntityID]*entity
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
		types:   make(map[sharding.EntityType]*typeState, len(cfg.Types)),
		shards:  make(map[sharding.ShardID]*shard),
		sweepAt: minSweep,
		nothing: &work{},
	}
	for _, t := range cfg.Types {
		m.types[t.Desc.Type] = &typeState{Type: t}
	}
	return m
}

// Stats are the current counts.
func (m *Machine) Stats() Stats { return m.stats }

// Epoch is the epoch at which the shard is open, 0 if it is not.
func (m *Machine) Epoch(id sharding.ShardID) sharding.Epoch {
	if s := m.shards[id]; s != nil {
		return s.epoch
	}
	return 0
}

// NextWake is when the next Tick has something to do: a timer, a retry, a
// passivation. The zero time: nothing is planned.
func (m *Machine) NextWake() time.Time {
	var t time.Time
	if len(m.wakes) > 0 {
		t = m.wakes[0].at
	}
	for _, ts := range m.types { // order-free: a minimum
		if e := ts.idle.front; e != nil && ts.PassivateAfter > 0 {
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

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

// find gives the entity that an answer of the driver is about, or nil if the
// incarnation it speaks of has ended.
func (m *Machine) find(id sharding.Entity, inc Incarnation) *entity {
	ts := m.types[id.Type]
	if ts == nil {
		return nil
	}
	s := m.shards[sharding.ShardID{Type: id.Type, Index: sharding.ShardOf(id.ID, ts.Desc.Shards)}]
	if s == nil {
		return nil
	}
	e := s.entities[id.ID]
	if e == nil || e.inc != inc && !mutant.On("incarnation") {
		return nil
	}
	return e
}

func (m *Machine) tick() {
	for len(m.wakes) > 0 && !m.wakes[0].at.After(m.now) {
		m.wake(m.wakes.pop())
	}
	for i := range m.cfg.Types {
		ts := m.types[m.cfg.Types[i].Desc.Type]
		if ts.PassivateAfter == 0 {
			continue
		}
		for e := ts.idle.front; e != nil && m.now.Sub(e.touched) >= ts.PassivateAfter; e = ts.idle.front {
			m.stop(e, Passivated)
		}
	}
}
