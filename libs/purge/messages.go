package purge

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is one message to a [Purger]. The set is closed.
type Input interface{ input() }

// Outputs are what steps of a purger want done.
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
		// Now is the clock of the store; zero: not known, because all shards have failed.
		Now  time.Time
		Rows []Row
		// More are the shards that may have more rows that are due.
		More   []sharding.ShardID
		Failed []sharding.ShardID // shards whose rows could not be read; they have none in Rows
		// Err says why nothing could be read. If it is empty, the other fields are valid.
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

// Row is a life that has ended, of which something is left that may be removed.
type Row struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	Life   uint64 // the sequence number of the record that has ended it
	Due    int64  // as the journal says; a purge that leaves records that may go does not change it
}

// Read asks for the first rows of each shard that are due before a time. It is answered by
// one Page.
type Read struct {
	Number uint64
	Shards []sharding.ShardID
	Until  int64 // Unix milliseconds
	Limit  int
}

// Purge has what is left of a life removed, under the epoch. It is answered by one Purged.
type Purge struct {
	Row
	Epoch sharding.Epoch
}

// Stats describes what the purger has to do with, and counts since its start.
type Stats struct {
	Failing int // shards whose rows could not be read at the last look
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
