package purge

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is an input of [Purger.Step]. Only this package defines inputs.
type Input interface{ input() }

// Outputs holds the actions that the driver must perform after a call of Step.
type Outputs struct {
	Reads  []Read
	Purges []Purge
}

// Inputs.
type (
	// Open: the shard is claimed at the epoch.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Close: the shard is handed off or lost.
	Close struct{ Shard sharding.ShardID }
	// Page answers Read.
	Page struct {
		Number uint64
		// Now is the time of the store's clock; zero: not known, because no shard could be read.
		Now   time.Time
		Wakes []Wake
		// More are the shards that may have more wake-ups that are due.
		More   []sharding.ShardID
		Failed []sharding.ShardID // shards whose wake-ups could not be read; they have none in Wakes
		// Err is the reason why nothing could be read. If it is empty, the other fields are valid.
		Err string
	}
	// Purged answers Purge.
	Purged struct {
		Purge   Purge
		Verdict sharding.Verdict
	}
	// Tick lets time pass.
	Tick struct{}
)

// Wake is a wake-up of the kind PurgeWake: a life has ended, and something of it is left that a purge may
// remove.
type Wake struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	Life   uint64 // the sequence number of the record that has ended the life
	// Due is as the journal says, in Unix milliseconds. If a purge could not remove all records that may be
	// removed, it does not change Due.
	Due int64
}

// Read asks for the first wake-ups of each shard that are due before a time. It is answered by
// one Page.
type Read struct {
	Number uint64
	Shards []sharding.ShardID
	Until  int64 // Unix milliseconds
	Limit  int
}

// Purge removes the remains of a life, under the epoch. It is answered by one Purged.
type Purge struct {
	Wake
	Epoch sharding.Epoch
}

// Stats describes what the purger has to do with, and counts since its start.
type Stats struct {
	Failing int // shards whose wake-ups could not be read at the last look
	// Purges counts operations that the journal has accepted: each removes some records, or
	// finds that it is too early.
	Purges uint64
	// Failed counts those that it has not, and reads that failed.
	Failed uint64
}

// Add adds the counts of another purger.
func (s *Stats) Add(o Stats) {
	s.Failing += o.Failing
	s.Purges += o.Purges
	s.Failed += o.Failed
}

func (Open) input()   {}
func (Close) input()  {}
func (Page) input()   {}
func (Purged) input() {}
func (Tick) input()   {}
