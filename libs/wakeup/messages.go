package wakeup

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Input is one message to a [Keeper], besides those that [Keeper.Told] takes. The set is
// closed.
type Input interface{ input() }

// Outputs are what steps of a keeper want done.
type Outputs struct {
	Reads []Read
	Fires []turn.Fire // inputs of the turn.Machine
}

// Inputs.
type (
	// Open: the shard is claimed at the epoch. Its wake-ups may fire.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Close: the shard is handed off or lost. None of its wake-ups fires any more.
	Close struct{ Shard sharding.ShardID }
	// Page answers Read. Of a shard that is in Failed nothing is known.
	Page struct {
		Number uint64
		// Now is the clock of the store.
		Now    time.Time
		Rows   []Row // in the order of their shards, and in each in that of their positions
		More   []sharding.ShardID
		Failed []sharding.ShardID
		// Err says why nothing could be read; empty: it could.
		Err string
	}
	// Tick lets time pass.
	Tick struct{}
)

// Read asks the journal for wake-ups: of each shard the first Limit ones behind a position
// that are due before Until. It is answered by one Page.
type Read struct {
	Number uint64
	Shards []Position
	Until  int64 // Unix milliseconds
	Limit  int
}

// Position is a place among the timers of a shard, in the order in which they are due. One
// without Due is before all of them.
type Position struct {
	Shard  sharding.ShardID
	Due    int64
	Entity sharding.Entity
	Kind   sharding.WakeKind
	Name   string
}

// Row is a wake-up that stands.
type Row struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	sharding.WakeRef
	Due, Period int64
	Input       sharding.Input
	// Err says why the input cannot be read; empty: it can.
	Err string
}

func (r *Row) position() Position {
	return Position{Shard: r.Shard, Due: r.Due, Entity: r.Entity, Kind: r.Kind, Name: r.Name}
}

// Failing is a wake-up whose command has failed, and will run again.
type Failing struct {
	Entity  sharding.Entity
	Name    string
	Command string
	Due     time.Time
	Since   time.Time // of the first failure, by the clock of this process
	Times   int       // how many times it has failed
	Next    time.Time // when it is tried again, by the clock of this process
	Code    sharding.Code
	Message string
}

// Stats describes what the keeper holds, and counts since its start.
type Stats struct {
	Rows    int // in memory
	Firing  int // under way
	Failing int
	Fired   uint64
	Failed  uint64
	// Obsolete counts firings that the journal refused because the wake-up did not stand any
	// more.
	Obsolete uint64
	// ReadsFailed counts reads that failed.
	ReadsFailed uint64
}

// Add adds the counts of another keeper.
func (s *Stats) Add(o Stats) {
	s.Rows += o.Rows
	s.Firing += o.Firing
	s.Failing += o.Failing
	s.Fired += o.Fired
	s.Failed += o.Failed
	s.Obsolete += o.Obsolete
	s.ReadsFailed += o.ReadsFailed
}

func (Open) input()  {}
func (Close) input() {}
func (Page) input()  {}
func (Tick) input()  {}
