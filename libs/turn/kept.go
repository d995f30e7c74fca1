package turn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A type whose state is in memory only may keep it when a shard is handed off. The entities
// that are alive at the hand-off are stopped, and their states are kept: [Drained] has them.
// The next owner opens the shard with them. An entity is brought to life from its kept state
// by its first command, or when one of its timers is due.

// Kept is the state of one entity, for the next owner of its shard.
type Kept struct {
	ID      sharding.EntityID
	Form    sharding.SnapshotForm
	Payload []byte
	// Timers are the timers that were pending. After is the rest of their time.
	Timers []Timer
}

// Size is about what it takes in memory, and in a message.
func (k *Kept) Size() int {
	n := 64 + len(k.ID) + len(k.Payload)
	for i := range k.Timers {
		t := &k.Timers[i]
		n += 64 + len(t.Name) + len(t.Command) + len(t.Payload)
	}
	return n
}

// KeptStats counts the states of entities that were kept for the next owner, and those that
// were not because of the limits.
type KeptStats struct{ Kept, OverLimit uint64 }

// KeptStats returns the counts since the start.
func (m *Machine) KeptStats() KeptStats { return m.keptStats }

// keptStates holds the states of a shard's entities that are not alive.
type keptStates struct {
	byID  map[sharding.EntityID]keptState
	bytes int
}

type keptState struct {
	Kept
	since time.Time // when it was put here; the time of its timers begins then
}

// put adds a state within the limits.
func (k *keptStates) put(s keptState, cfg *Config) bool {
	if old, found := k.byID[s.ID]; found {
		k.drop(&old)
	}
	if size := s.Size(); len(k.byID) < cfg.KeptEntities && k.bytes+size <= cfg.KeptBytes {
		if k.byID == nil {
			k.byID = map[sharding.EntityID]keptState{}
		}
		k.byID[s.ID] = s
		k.bytes += size
		return true
	}
	return false
}

func (k *keptStates) drop(s *keptState) {
	k.bytes -= s.Size()
	delete(k.byID, s.ID)
}

func (k *keptStates) check(cfg *Config) error {
	size := 0
	for _, s := range k.byID { // order-free: a sum
		size += s.Size()
	}
	if size != k.bytes || size > cfg.KeptBytes || len(k.byID) > cfg.KeptEntities {
		return fmt.Errorf("keeps %d states of %d bytes, counted %d", len(k.byID), size, k.bytes)
	}
	return nil
}

// list returns the states, in the order of their ids, with the remaining time of their timers.
func (k *keptStates) list(now time.Time) []Kept {
	var out []Kept
	for _, id := range slices.Sorted(maps.Keys(k.byID)) {
		s := k.byID[id]
		s.Timers = s.timersLeft(now)
		out = append(out, s.Kept)
	}
	return out
}

// timersLeft returns the timers with their remaining time.
func (s *keptState) timersLeft(now time.Time) []Timer {
	timers := slices.Clone(s.Timers)
	for i := range timers {
		timers[i].After = max(timers[i].After-now.Sub(s.since), atOnce)
	}
	return timers
}

// atOnce is the time of a timer that is due: one without any would be cancelled.
const atOnce = time.Millisecond

// keeps reports whether the states of the shard's entities are kept when it is handed off.
func (s *shard) keeps() bool { return s.typ.KeepOnMoves && s.typ.Desc.Volatile }

// takeIn opens the shard with the states that the owner before has kept. Whichever process sent them, only
// states of the shard's entities count.
func (m *Machine) takeIn(s *shard, states []Kept) {
	if !s.keeps() {
		return
	}
	for _, k := range states {
		if s.typ.Desc.ShardOf(k.ID) == s.id {
			m.keep(s, k)
		}
	}
	if idle := s.typ.policy.Strategy().Idle; idle > 0 && len(s.kept.byID) > 0 {
		m.schedule(alarm{at: m.now.Add(idle), kind: alarmKeptIdle, shard: s})
	}
	for _, k := range s.kept.list(m.now) {
		m.scheduleKept(s, &k)
	}
}

// keep keeps the state of an entity that is not alive.
func (m *Machine) keep(s *shard, k Kept) bool {
	k.ID = sharding.EntityID(strings.Clone(string(k.ID)))
	ok := s.kept.put(keptState{Kept: k, since: m.now}, &m.cfg)
	if !ok {
		m.keptStats.OverLimit++
	}
	return ok
}

// scheduleKept brings the entity to life when the first of its timers is due.
func (m *Machine) scheduleKept(s *shard, k *Kept) {
	if len(k.Timers) > 0 {
		first := slices.MinFunc(k.Timers, func(a, b Timer) int { return cmp.Compare(a.After, b.After) })
		m.schedule(alarm{at: m.now.Add(first.After), kind: alarmKeptTimer, shard: s, id: sharding.CommandID(k.ID)})
	}
}

// wakeKept brings an entity to life, without a command: its timers are due.
func (m *Machine) wakeKept(s *shard, id sharding.EntityID) {
	// It is tried again if the entity cannot be loaded now.
	m.schedule(alarm{at: m.now.Add(m.cfg.LoadTimeout), kind: alarmKeptTimer, shard: s, id: sharding.CommandID(id)})
	if m.lookUp(s.typ, id) == nil {
		m.load(m.newEntity(s, id))
	}
}

// dropIdle drops the states of entities that would have been passivated by now, had they been
// alive since the shard was opened.
func (m *Machine) dropIdle(s *shard) {
	for _, id := range slices.Sorted(maps.Keys(s.kept.byID)) {
		if k := s.kept.byID[id]; len(k.Timers) == 0 && m.lookUp(s.typ, id) == nil {
			s.kept.drop(&k)
			s.typ.passivations.Idle++
		}
	}
}

// keptState returns the kept state that brings the entity to life, nil if there is none. It stays kept until
// the entity is alive.
func (e *entity) keptState() *Kept {
	if k, found := e.shard.kept.byID[e.id]; found {
		return &k.Kept
	}
	return nil
}

// takeKept removes the kept state of an entity that was loaded with it, if there is one, and starts the
// timers that were kept with it.
func (m *Machine) takeKept(e *entity) {
	k, found := e.shard.kept.byID[e.id]
	if !found {
		return
	}
	// Invariant: when an entity has been loaded with its kept state, no other copy of that state is kept.
	// Mutants: kept-and-alive
	e.shard.kept.drop(&k) //mutant:skip kept-and-alive
	for _, t := range k.timersLeft(m.now) {
		m.setTimer(e, t)
	}
}

// pendingTimers returns the timers of the entity with their remaining time.
func (e *entity) pendingTimers(now time.Time) []Timer {
	var timers []Timer
	for _, t := range e.timers {
		left := t.Timer
		left.After = max(t.due.Sub(now), atOnce)
		timers = append(timers, left)
	}
	return timers
}

// stoppedWith keeps the state of an entity that was stopped because its shard is handed off.
func (m *Machine) stoppedWith(e *entity, k *Kept) {
	if k == nil || !e.shard.keeps() || e.shard.phase == open {
		return
	}
	state := *k
	state.ID, state.Timers = e.id, e.keptTimers
	m.keep(e.shard, state)
	e.keptTimers = nil
}

// handedOn are the states for the next owner.
func (m *Machine) handedOn(s *shard) []Kept {
	list := s.kept.list(m.now)
	m.keptStats.Kept += uint64(len(list))
	return list
}
