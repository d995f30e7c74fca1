package purge

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is an input of [Purger.Step]. Only this package defines inputs.
type Input interface{ input() }

// Outputs holds the actions that the driver must perform after a call of Step.
type Outputs struct {
	Reads  []Read
	Purges []journal.Purge // each is answered by one Purged
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
		journal.WakesPage
		// Err is the reason why nothing could be read. If it is nil, the page is valid.
		Err error
	}
	// Purged answers a purge.
	Purged struct {
		Purge   journal.Purge
		Verdict sharding.Verdict
	}
	// Tick lets time pass.
	Tick struct{}
)

// Read asks for the first wake-ups of the kind [sharding.PurgeWake] of each shard that are due before a time. It is
// answered by one Page.
type Read struct {
	Number uint64
	journal.WakesRequest
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
