package outbox

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Input is an input of [Dispatcher.Step]. Only this package defines inputs. The events that
// [Dispatcher.Observe] takes are no Inputs.
type Input interface{ input() }

// Outputs holds the actions that the driver must perform after calls of Step and Observe.
type Outputs struct {
	Reads    []Read
	Delivers []Deliver
	Acks     []Ack
	Turn     []turn.Input // inputs of the turn.Machine
	Dead     []DeadLetter // to be reported to operators
}

// Empty reports whether there is nothing to do.
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
	// Page is the answer to a Read.
	Page struct {
		Number uint64 // the Number of the Read
		journal.SendsPage
		// Err is the reason why nothing could be read. If it is nil, the page is valid.
		Err error
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
	// Served: shards of a type are served anew, by another owner or at a higher epoch. The sends to their
	// entities that fail are tried again now.
	Served struct {
		Type   Type
		Shards []uint32
		All    bool // every shard of the type, even if Shards does not name it
	}
	// Released: entities of a type are no longer quarantined. The sends to them that fail are tried again now.
	Released struct {
		Type Type
		IDs  []sharding.EntityID
	}
	// Tick lets time pass.
	Tick struct{}
)

// Type has the properties of an entity type that assign its entities to shards.
type Type struct {
	Type   sharding.EntityType
	Shards uint32
	Rule   sharding.ShardRule
}

// Read asks the journal for records with pending sends. A Read is answered by one Page.
type Read struct {
	Number uint64
	journal.SendsRequest
}

// Deliver sends a command to its target. It is answered by one Answered, at the latest a while
// after the command's deadline.
type Deliver struct {
	Number uint64
	From   sharding.Entity // the sender
	Env    sharding.Envelope
}

// Ack stores how sends have ended. It is answered by one Acked.
type Ack struct {
	Number uint64
	Append sharding.Append
}

// DeadLetter is a send that has ended without success, and whose sender has not taken the answer. The
// journal keeps a dead letter until an operator drops it or sends it again.
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
	Bytes    int // of the inputs and answers of the sends in memory
	UnderWay int // deliveries that are not answered
	Failing  int // pairs of sender and target
	// Delivered counts sends that were answered with success, or whose sender has taken the
	// answer. Refused and InDoubt count dead letters.
	Delivered, Refused, InDoubt uint64
	// Failed counts attempts that will be repeated.
	Failed uint64
	// Obsolete counts answers that were not taken, because the sender had taken them before, or
	// because they were for an earlier life of the sender.
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
func (Served) input()   {}
func (Released) input() {}
func (Tick) input()     {}
