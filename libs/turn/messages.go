package turn

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is one message to the entity execution core. The set is closed.
type Input interface{ input() }

// Output is one thing the driver must do, in order. The set is closed, but for
// what the region core adds to it: its outputs and these make one list.
type Output interface{ Output() }

// RequestID names a delivered command, chosen by the caller, unique among the
// commands that are not answered yet.
type RequestID uint64

// Incarnation is one life of an entity in this machine. What comes back from a
// slow job carries it: a result of an ended incarnation is dropped. It is the
// entity's place, and a number that is another one for each of the next four
// billion lives. 0 is none.
type Incarnation uint64

func incarnation(place, number uint32) Incarnation {
	return Incarnation(number)<<32 | Incarnation(place)
}

// Place is a small number that no other entity has at the time, so that what
// belongs to instances can be kept in a slice. It passes to another entity, or to
// the next incarnation of the same.
func (i Incarnation) Place() uint32 { return uint32(i) }

// String is "number@place".
func (i Incarnation) String() string { return fmt.Sprintf("%d@%d", uint64(i)>>32, i.Place()) }

// Inputs.
type (
	// Open: the shard is claimed at the epoch; its entities may live.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Deliver is a command for an entity of an open shard. The answer is
	// exactly one Answer or one NotMine.
	Deliver struct {
		Request RequestID
		Shard   sharding.ShardID
		// Env is copied.
		Env *sharding.Envelope
	}
	// Loaded answers Load. The instance exists in the driver and has replayed
	// its snapshot and events up to LastSeq.
	Loaded struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		LastSeq     uint64
		// Events is the number of events replayed after the snapshot, each record
		// without events counted as one; Bytes is their size.
		Events, Bytes int
		// Stored holds what the journal keeps of the commands that were looked
		// up; commands that are not stored are absent.
		Stored map[sharding.CommandID]sharding.Stored
		// Timers were set by the start hook.
		Timers []Timer
		// Err says why there is no instance: Retry means try again (store not
		// reachable); otherwise the entity is out of order (a record failed its
		// checksum, the replay panicked) and its commands are answered with it.
		Err   string
		Code  sharding.Code
		Retry bool
	}
	// LookedUp answers Lookup.
	LookedUp struct {
		Incarnation Incarnation
		ID          sharding.CommandID
		// Found says that the command is stored, or expired.
		Found  bool
		Stored sharding.Stored
		// Failed: the journal did not answer.
		Failed bool
	}
	// TurnDone ends a Run. Events are applied to the instance already.
	TurnDone struct {
		Incarnation Incarnation
		Request     RequestID
		Events      []sharding.Event
		Reply       sharding.Reply
		// Spoiled: the handler failed or panicked after it had staged events;
		// the turn is discarded and the incarnation ends.
		Spoiled bool
		// Passivate: the entity asked to be stopped when it has nothing to do.
		Passivate bool
		Timers    []Timer
		// Handler is how long the handler ran.
		Handler time.Duration
	}
	// Appended answers Append.
	Appended struct {
		Incarnation Incarnation
		Seq         uint64 // of the unit's first record
		Verdict     sharding.Verdict
		// Fence is the stored one, with RefusedEpoch.
		Fence sharding.Fence
		// Reason says why, with RefusedFull (disk full, queue full, too large) and
		// RefusedDamaged.
		Reason string
	}
	// FenceRead answers ReadFence.
	FenceRead struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Fence
		// Reason says why, with RefusedDamaged.
		Reason string
	}
	// Stopped answers Stop: the stop hook has run, the instance is gone.
	Stopped struct{ Incarnation Incarnation }
	// Drain lets a shard finish what it accepted and stop its entities. The
	// answer is Drained, at the latest after Config.DrainTimeout and when all
	// its appends are settled.
	Drain struct{ Shard sharding.ShardID }
	// Abort ends a shard at once: it belongs to somebody else. Waiting
	// commands are answered NotMine, or in doubt where their outcome is. The
	// answer is Drained.
	Abort struct{ Shard sharding.ShardID }
	// Tick lets time pass: deadlines, timers, passivation.
	Tick struct{}
)

// Timer is a volatile timer of an entity: it dies with the incarnation.
type Timer struct {
	Name string
	// After is the time to the (first) firing; 0 or less cancels the timer.
	After time.Duration
	// Every repeats it; 0 fires once.
	Every   time.Duration
	Command string
	// Encoding and Payload are the command's input.
	Encoding sharding.Encoding
	Payload  []byte
}

// StopReason says why an instance is stopped.
type StopReason uint8

const (
	// Passivated: idle, or by its own wish.
	Passivated StopReason = iota + 1
	// HandedOff: the shard moves or the region drains.
	HandedOff
)

// String is "passivated" or "handed-off".
func (r StopReason) String() string {
	if r == HandedOff {
		return "handed-off"
	}
	return "passivated"
}

// Outputs.
type (
	// Load makes an instance: new, snapshot and events replayed, commands
	// looked up. Every Load is to be answered once, even if nobody waits for it any
	// more: until then it counts for Config.EntityLoads and Config.TotalLoads.
	Load struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Lookup      []sharding.CommandID
		// Volatile: nothing is stored; make a new instance.
		Volatile bool
		// LookupOnly: the shard is not ours any more; no instance is made, only
		// the commands are looked up, whose outcome is in doubt.
		LookupOnly bool
	}
	// Lookup asks the journal for one command of a living entity, whose next turn
	// waits for the answer, LookedUp.
	Lookup struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		ID          sharding.CommandID
	}
	// Run executes one turn on the instance. It comes as a pointer to memory that
	// is used again after TurnDone.
	Run struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Request     RequestID
		// Env is not to be changed.
		Env      *sharding.Envelope
		ReadOnly bool
		// Timer says that the command is a timer's.
		Timer bool
	}
	// Cancel cancels the context of a running turn: nobody waits any more.
	Cancel struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Request     RequestID
	}
	// Append hands a unit of records to the group commit.
	Append struct {
		Incarnation Incarnation
		Append      sharding.Append
	}
	// ReadFence joins the next batch as a read of the fence row.
	ReadFence struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Number uint64
	}
	// Snapshot asks the instance for its state, to be stored as of Seq, which
	// is durable and is all that was applied to the instance.
	Snapshot struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Seq         uint64
	}
	// Stop runs the stop hook of an instance and drops it. Answered by Stopped.
	Stop struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Reason      StopReason
	}
	// Drop forgets an instance without its stop hook: the incarnation ended.
	Drop struct {
		Entity      sharding.Entity
		Incarnation Incarnation
	}
	// Answer ends a delivered command. It comes as a pointer to memory that is
	// used again after [Machine.Recycle].
	Answer struct {
		Request RequestID
		Reply   sharding.Reply
	}
	// Told: a command that nobody waits for has ended: a tell that was answered
	// when it was accepted, or a timer's.
	Told struct {
		Entity  sharding.Entity
		Command string
		Timer   bool
		Trace   string
		Arrived time.Time
		Reply   sharding.Reply
	}
	// NotMine ends a delivered command that was definitely not applied,
	// because the shard is not served here any more.
	NotMine struct {
		Request RequestID
		Shard   sharding.ShardID
		// Epoch is the one that is not served here any more, 0 if the shard was
		// not open at all.
		Epoch sharding.Epoch
	}
	// Fenced: the journal says the shard belongs to another epoch. The shard
	// is aborted; Drained follows.
	Fenced struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Stored sharding.Epoch
	}
	// Drained: nothing of the shard is alive or unsettled any more.
	Drained struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
)

// String shows the command, not where it is kept: traces must be the same
// every time.
func (r *Run) String() string {
	return fmt.Sprintf("{Entity:%v Shard:%v Epoch:%v Incarnation:%v Request:%d Env:%+v ReadOnly:%t Timer:%t}",
		r.Entity, r.Shard, r.Epoch, r.Incarnation, r.Request, *r.Env, r.ReadOnly, r.Timer)
}

func (Open) input()      {}
func (Deliver) input()   {}
func (Loaded) input()    {}
func (LookedUp) input()  {}
func (TurnDone) input()  {}
func (Appended) input()  {}
func (FenceRead) input() {}
func (Stopped) input()   {}
func (Drain) input()     {}
func (Abort) input()     {}
func (Tick) input()      {}

func (Load) Output()      {}
func (Lookup) Output()    {}
func (*Run) Output()      {}
func (Cancel) Output()    {}
func (Append) Output()    {}
func (ReadFence) Output() {}
func (Snapshot) Output()  {}
func (Stop) Output()      {}
func (Drop) Output()      {}
func (*Answer) Output()   {}
func (Told) Output()      {}
func (NotMine) Output()   {}
func (Fenced) Output()    {}
func (Drained) Output()   {}
