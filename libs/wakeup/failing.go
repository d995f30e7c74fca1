package wakeup

import (
	"cmp"
	"time"

	"github.com/roost-cluster/roost/libs/priority"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Failing is a wake-up that has failed and will be tried again. It is a reminder whose command has
// failed, or a remembered entity that could not be started or has died.
type Failing struct {
	Entity sharding.Entity
	Since  time.Time // when it failed first, by the clock of this process
	Times  int       // how many times it has failed
	// Next is the time of the next attempt, by the clock of this process. If that time is over,
	// Next is the present time. It is zero if the journal must be read first.
	Next    time.Time
	Code    sharding.Code // of the last failure
	Message string
	// The fields below are for reminders only. Due is by the clock of the store.
	Name    string
	Command string
	Due     time.Time
	Period  time.Duration
}

// asked reports whether a request asks for an entity. A request asks for one entity, for the entities
// of a type, or for all entities.
func asked(of, e sharding.Entity) bool {
	return (of.Type == "" || of.Type == e.Type) && (of.ID == "" || of.ID == e.ID)
}

// Failing returns at most limit reminders that are failing. It returns the reminders of one entity. If
// the given entity has no id, it returns the reminders of a type; if the entity is zero, of all
// entities. The reminder that has been failing for longest comes first.
func (k *Keeper) Failing(of sharding.Entity, limit int) []Failing {
	first := priority.First(func(yield func(*wake) bool) {
		for w := range k.failing { // order-free: the first ones are taken
			if asked(of, w.Entity) && !yield(w) {
				return
			}
		}
	}, limit, func(a, b *wake) int {
		return cmp.Or(a.failingSince.Compare(b.failingSince), keyOf(&a.WakeRow).compare(keyOf(&b.WakeRow)))
	})
	list := make([]Failing, len(first))
	for i, w := range first {
		list[i] = w.describe()
	}
	return list
}

// FailingOf returns the reminder of an entity with the given name, if the reminder is failing.
func (k *Keeper) FailingOf(s sharding.ShardID, e sharding.Entity, name string) (f Failing, ok bool) {
	if sh := k.byID[s]; sh != nil {
		if w := sh.wakes[key{entity: e, kind: sharding.ReminderWake, name: name}]; w != nil && w.failures > 0 {
			return w.describe(), true
		}
	}
	return f, false
}

// FailingTypes counts the failing reminders by entity type.
func (k *Keeper) FailingTypes() map[sharding.EntityType]int {
	n := map[sharding.EntityType]int{}
	for w := range k.failing { // order-free: counted
		n[w.Entity.Type]++
	}
	return n
}

func (w *wake) describe() Failing {
	return Failing{
		Entity: w.Entity, Since: w.failingSince, Times: w.failures, Next: w.retryAt, Code: w.code, Message: w.message,
		Name: w.Name, Command: w.Input.Command, Due: time.UnixMilli(w.Due), Period: time.Duration(w.Period) * time.Millisecond,
	}
}

// Failing returns remembered entities that could not be started or have died, and will be started
// again. Its parameters and the order are the same as for [Keeper.Failing].
func (s *Starter) Failing(of sharding.Entity, limit int) []Failing {
	first := priority.First(func(yield func(*start) bool) {
		for e, st := range s.starts { // order-free: the first ones are taken
			if st.times > 0 && asked(of, e) && !yield(st) {
				return
			}
		}
	}, limit, func(a, b *start) int {
		return cmp.Or(a.since.Compare(b.since), a.entity.Compare(b.entity))
	})
	list := make([]Failing, len(first))
	for i, st := range first {
		list[i] = st.describe()
	}
	return list
}

// FailingOf returns a remembered entity if it could not be started, or has died.
func (s *Starter) FailingOf(e sharding.Entity) (f Failing, ok bool) {
	if st := s.starts[e]; st != nil && st.times > 0 {
		return st.describe(), true
	}
	return f, false
}

// FailingTypes counts the failing remembered entities by type.
func (s *Starter) FailingTypes() map[sharding.EntityType]int {
	n := map[sharding.EntityType]int{}
	for e, st := range s.starts { // order-free: counted
		if st.times > 0 {
			n[e.Type]++
		}
	}
	return n
}

func (st *start) describe() Failing {
	return Failing{Entity: st.entity, Since: st.since, Times: st.times, Next: st.retryAt, Code: st.code, Message: st.message}
}
