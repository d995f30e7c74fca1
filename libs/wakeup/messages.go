package wakeup

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Input is an input of [Keeper.Step] and [Starter.Step]. Only this package defines inputs.
type Input interface{ input() }

// Outputs holds the actions that the driver must perform after calls of Step and Observe.
type Outputs struct {
	Reads []Read
	// Fires and Starts are inputs of the turn.Machine.
	Fires  []turn.Fire
	Starts []turn.StartEntity
}

// Empty reports whether there is nothing to do.
func (o *Outputs) Empty() bool { return len(o.Reads)+len(o.Fires)+len(o.Starts) == 0 }

// Inputs.
type (
	// Open: the shard is claimed at the epoch. Its wake-ups may fire.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Close: the shard is handed off or lost. None of its wake-ups fires any more.
	Close struct{ Shard sharding.ShardID }
	// Page is the answer to a Read.
	Page struct {
		Number uint64 // the Number of the Read
		// Remembered is the same as in the Read.
		Remembered bool
		// Now is the time of the store's clock; zero: not known, because no shard could be read.
		Now time.Time
		// Wakes are in the order of Read.Shards. The wake-ups of one shard are in the order of
		// their positions.
		Wakes  []Stored
		More   []sharding.ShardID // shards that may have more wake-ups
		Failed []sharding.ShardID // shards whose wake-ups could not be read; they have none in Wakes
		// Err is the reason why nothing could be read. If it is empty, the other fields are valid.
		Err string
	}
	// Tick lets time pass.
	Tick struct{}
)

// Read asks the journal for wake-ups of shards. It is answered by one Page.
type Read struct {
	Number uint64
	// Remembered is true if a [Starter] requests the wake-ups of remembered entities. Otherwise a
	// [Keeper] requests reminders.
	Remembered bool
	Shards     []Position // for each shard, the position after which wake-ups are read
	Until      int64      // only wake-ups that are due before this time are read, in Unix milliseconds; 0: all reminders
	Limit      int        // the largest number of wake-ups per shard
}

// Position is a place among the reminders of a shard, which are in the order of their due times. A
// position that has only a Shard is before all reminders of the shard.
type Position struct {
	Shard  sharding.ShardID
	Due    int64
	Entity sharding.Entity
	Kind   sharding.WakeKind
	Name   string
}

// Stored is a wake-up as the journal has it.
type Stored struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	sharding.WakeRef
	Due, Period int64
	Input       sharding.Input
	// Err is the reason why the input cannot be read; empty: it can.
	Err string
}

func (w *Stored) position() Position {
	return Position{Shard: w.Shard, Due: w.Due, Entity: w.Entity, Kind: w.Kind, Name: w.Name}
}

// Stats describes what the keeper holds, and counts since its start.
type Stats struct {
	Wakes   int // wake-ups in memory
	Firing  int // firings in progress
	Failing int // wake-ups that are failing
	// Overdue is the time since the oldest wake-up that waits to fire was due; 0: none is due. It does not count those that are
	// failing, and those whose entity is firing another one.
	Overdue time.Duration
	// Fired, Failed and Obsolete count the firings that have ended. An obsolete firing was refused
	// by the journal, because its wake-up had been set again or removed, or had fired already.
	Fired, Failed, Obsolete uint64
	// ReadsFailed counts reads that failed.
	ReadsFailed uint64
}

// Add adds the counts of another keeper.
func (s *Stats) Add(o Stats) {
	s.Wakes += o.Wakes
	s.Firing += o.Firing
	s.Failing += o.Failing
	s.Overdue = max(s.Overdue, o.Overdue)
	s.Fired += o.Fired
	s.Failed += o.Failed
	s.Obsolete += o.Obsolete
	s.ReadsFailed += o.ReadsFailed
}

func (Open) input()  {}
func (Close) input() {}
func (Page) input()  {}
func (Tick) input()  {}
