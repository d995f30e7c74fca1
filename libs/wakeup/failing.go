package wakeup

import (
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Failing is a wake-up that has failed and will be tried again. It is a reminder whose command has
// failed, or a remembered entity that could not be started or has died.
type Failing struct {
	Entity sharding.Entity
	due.Failure
	// The fields below are for reminders only. Due is by the clock of the store.
	Name    string
	Command string
	Due     time.Time
	Period  time.Duration
}

// Failing returns at most limit reminders that are failing, of an entity, a type or all, see [due.Failing.First].
func (k *Keeper) Failing(of sharding.Entity, limit int) []Failing {
	return due.Map(k.failing.First(of, limit), (*wake).describe)
}

// FailingOf returns the reminder of an entity with the given name, if the reminder is failing.
func (k *Keeper) FailingOf(s sharding.ShardID, e sharding.Entity, name string) (f Failing, ok bool) {
	if sh := k.sweep.Shard(s); sh != nil {
		if w := sh.wakes[key{entity: e, kind: sharding.ReminderWake, name: name}]; w != nil && w.Times > 0 {
			return w.describe(), true
		}
	}
	return f, false
}

// FailingTypes counts the failing reminders by entity type.
func (k *Keeper) FailingTypes() map[sharding.EntityType]int { return k.failing.Types() }

func (w *wake) describe() Failing {
	return Failing{
		Entity: w.Entity, Failure: w.Failure,
		Name: w.Name, Command: w.Input.Command, Due: time.UnixMilli(w.Due), Period: time.Duration(w.Period) * time.Millisecond,
	}
}

// Failing returns remembered entities that could not be started or have died, and will be started
// again. Its parameters and the order are the same as for [Keeper.Failing].
func (s *Starter) Failing(of sharding.Entity, limit int) []Failing {
	return due.Map(s.failing.First(of, limit), (*start).describe)
}

// FailingOf returns a remembered entity if it could not be started, or has died.
func (s *Starter) FailingOf(e sharding.Entity) (f Failing, ok bool) {
	if st := s.starts[e]; st != nil && st.Times > 0 {
		return st.describe(), true
	}
	return f, false
}

// FailingTypes counts the failing remembered entities by type.
func (s *Starter) FailingTypes() map[sharding.EntityType]int { return s.failing.Types() }

func (st *start) describe() Failing { return Failing{Entity: st.entity, Failure: st.Failure} }
