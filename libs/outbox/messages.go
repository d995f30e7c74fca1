package outbox

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Input is one message to a [Dispatcher], besides those that [Dispatcher.Observe] takes. The set
// is closed.
type Input interface{ input() }

// Outputs are what steps of a dispatcher want done.
type Outputs struct {
	Reads    []Read
	Delivers []Deliver
	Acks     []Ack
	Turn     []turn.Input // for the turn.Machine
	Dead     []DeadLetter // to be told to operators
}

// Empty reports whether nothing is wanted.
func (o *Outputs) Empty() bool {
	return len(o.Reads)+len(o.Delivers)+len(o.Acks)+len(o.Turn)+len(o.Dead) == 0
}

// Inputs.
type (
	// Open: the shard is claimed at the epoch. What its entities send may be delivered.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Close: the shard is handed off or lost. Nothing more is delivered.
	Close struct{ Shard sharding.ShardID }
	// Page answers Read. Of a shard that is in Failed nothing is known.
	Page struct {
		Number uint64
		// Now is the clock of the store; zero: not known, because all shards have failed.
		Now    time.Time
		Rows   []Row // in the order of their shards, and in each in that of their positions
		More   []sharding.ShardID
		Failed []sharding.ShardID
		// Err says why nothing could be read; empty: it could.
		Err string
	}
	// Answered answers Deliver.
	Answered struct {
		Number uint64
		Reply  sharding.Reply
	}
	// Acked answers Ack.
	Acked struct {
		Number  uint64
		Verdict sharding.Verdict
	}
	// Tick lets time pass.
	Tick struct{}
)

// Read asks the journal for records with pending sends: of each shard the first Limit ones
// behind a position. It is answered by one Page.
type Read struct {
	Number uint64
	Shards []Position // each shard once
	Limit  int
}

// Position is a place among the records of a shard: by entity, in an order that is the
// store's own, then by sequence number. One without Entity is before all of them.
type Position struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	Seq    uint64
}

// Row is a record with pending sends.
type Row struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	Seq    uint64
	At     time.Time // when it was stored
	Sends  []Pending // in the order of their places
	// Epoch is the highest epoch that was claimed for the shard when the row was read.
	Epoch sharding.Epoch
	// Err says why the record cannot be read; empty: it can.
	Err string
}

// Pending is a send that has not ended.
type Pending struct {
	Place uint16 // in the record
	sharding.Send
}

// Deliver sends a command to its target. It is answered by one Answered, at the latest a while
// after the command's deadline.
type Deliver struct {
	Number uint64
	Env    sharding.Envelope
}

// Ack stores how sends have ended. It is answered by one Acked.
type Ack struct {
	Number uint64
	Append sharding.Append
}

// DeadLetter is a send that has ended without success, of which its sender is not told. It
// stays in the journal until somebody deals with it.
type DeadLetter struct {
	From    sharding.Entity
	Seq     uint64
	Place   uint16
	To      sharding.Entity
	Command string
	State   sharding.SendState // SendRefused or SendInDoubt
	Code    sharding.Code
	Message string
}

// Stats describes what the dispatcher holds, and counts since its start.
type Stats struct {
	Sends    int // in memory
	Bytes    int // of their inputs and answers
	UnderWay int // deliveries that are not answered
	Failing  int // pairs of sender and target
	// Delivered counts sends that were answered with success, or whose sender has taken the
	// answer. Refused and InDoubt count dead letters.
	Delivered, Refused, InDoubt uint64
	// Failed counts attempts that will be repeated.
	Failed uint64
	// Obsolete counts answers that the sender has taken before, or that are not for its
	// present life.
	Obsolete uint64
	// ReadsFailed counts reads that failed.
	ReadsFailed uint64
}

// Add adds the counts of another dispatcher.
func (s *Stats) Add(o Stats) {
	s.Sends += o.Sends
	s.Bytes += o.Bytes
	s.UnderWay += o.UnderWay
	s.Failing += o.Failing
	s.Delivered += o.Delivered
	s.Refused += o.Refused
	s.InDoubt += o.InDoubt
	s.Failed += o.Failed
	s.Obsolete += o.Obsolete
	s.ReadsFailed += o.ReadsFailed
}

func (Open) input()     {}
func (Close) input()    {}
func (Page) input()     {}
func (Answered) input() {}
func (Acked) input()    {}
func (Tick) input()     {}
