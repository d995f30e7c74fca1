package wakeup

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
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
		journal.WakesPage
		// Err is the reason why nothing could be read. If it is nil, the page is valid.
		Err error
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
	journal.WakesRequest
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
