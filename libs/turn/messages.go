package turn

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is one message to the entity execution core. The set is closed.
type Input interface{ input() }

// Output is one thing the driver must do, in order. The set is closed.
type Output interface{ output() }

// RequestID names a delivered command, chosen by the caller, unique among the
// commands that are not answered yet.
type RequestID uint64

// Incarnation identifies one activation of an entity in this machine. Results of
// slow jobs carry it, and those of ended incarnations are dropped. It consists of
// the entity's slot and a number that differs for each of the next four billion
// incarnations. 0 is none.
type Incarnation uint64

func incarnation(slot, number uint32) Incarnation {
	return Incarnation(number)<<32 | Incarnation(slot)
}

// Slot is a small number that no other entity has at the time, so that a driver
// can keep its instances in a slice. It is reused by other entities, and by the
// entity's next incarnation.
func (i Incarnation) Slot() uint32 { return uint32(i) }

// String is "number@slot".
func (i Incarnation) String() string { return fmt.Sprintf("%d@%d", uint64(i)>>32, i.Slot()) }

// Inputs.
type (
	// Open: the shard is claimed at the epoch; its entities may live.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Kept are the states that the owner before has kept.
		Kept []Kept
	}
	// Deliver is a command for an entity of an open shard. It ends with exactly one
	// Answer or one NotMine.
	Deliver struct {
		Request RequestID
		Shard   sharding.ShardID
		// Env is copied.
		Env *sharding.Envelope
	}
	// Fire runs the command of a wake-up that is due: nobody called, and nobody gets its
	// answer. It ends with exactly one FiringEnded.
	Fire struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		Wakeup Wakeup
	}
	// Activate brings an entity to life without a command. It ends with exactly one
	// ActivationEnded.
	Activate struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
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
		// Stored holds what is stored of the commands that were looked up; commands
		// that are not stored are absent.
		Stored map[sharding.CommandID]sharding.Stored
		// Timers were set by the start hook.
		Timers []Timer
		// Life is the number of the entity's life: the sequence number of the record that deleted
		// it last; 0: none did.
		Life uint64
		// Trimmed: events of this life may be gone, so that only a snapshot has the state.
		Trimmed bool
		// Fresh: no turn has left a record in this life of the entity.
		Fresh bool
		// Pending is how many sends of the entity's records are pending.
		Pending int
		// Remembered is when the entity was last active, in Unix milliseconds; 0: it is not
		// remembered. Reminders is how many of its reminders stand. Both are set if Load.Wakes asks
		// for them.
		Remembered int64
		Reminders  int
		// Size is about how much memory the instance takes, in bytes; 0: not known.
		Size int
		// Err says why there is no instance. Retry means try again (the store is not
		// reachable). Otherwise the entity has failed (a record has a wrong checksum,
		// the replay panicked), and its commands are rejected with Err and Code.
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
	// SendRead answers ReadSend.
	SendRead struct {
		Incarnation Incarnation
		Request     RequestID
		// State is SendDone if there is no such send.
		State sharding.SendState
		Send  sharding.Send
		// Code and Err say why it could not be read; empty: it could.
		Code sharding.Code
		Err  string
	}
	// TurnDone ends a Run. Events are applied to the instance already.
	TurnDone struct {
		Incarnation Incarnation
		Request     RequestID
		Events      []sharding.Event
		// Wakes are the wake-ups that the turn sets or removes, each name at most once.
		Wakes []sharding.Wake
		// Sends are commands to other entities, to be delivered when the turn is durable.
		Sends []sharding.Send
		// Deleted: the turn has deleted the entity. Its Wakes and Timers are dropped.
		Deleted bool
		Reply   sharding.Reply
		// Spoiled: the handler failed or panicked after it had staged events;
		// the turn is discarded and the incarnation ends.
		Spoiled bool
		// Passivate: the entity asked to be stopped when it is idle.
		Passivate bool
		// Forgotten: the entity does not want to be remembered any more.
		Forgotten bool
		Timers    []Timer
		// Size is about how much memory the instance takes, in bytes; 0: not known.
		Size int
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
		// Reason says why, with RefusedFull (disk full, queue full),
		// RefusedTooLarge and RefusedDamaged.
		Reason string
		// At is when the records were stored, with Durable.
		At time.Time
	}
	// SendsEnded: it is durable that sends of the entity, which were pending, have ended, other
	// than by a Fire.
	SendsEnded struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		Seqs   []uint64 // of the record of each of them
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
	// Ask: a running turn wants to send a command to another entity and waits for the
	// answer. It ends with exactly one AskDone, also if the turn, its incarnation or the shard
	// ends before. The driver chooses the number, another one for each ask of an incarnation.
	Ask struct {
		Incarnation Incarnation
		Turn        uint64 // of the Run
		Number      uint64
		Target      sharding.Entity
		Command     string
		// ReadOnly says that the command changes nothing.
		ReadOnly bool
		// Key is the idempotency key that the author chose, Step the name from which it is
		// derived; both empty: it is derived from the target, the command and how many of these
		// the turn has sent before.
		Key      sharding.CommandID
		Step     string
		Encoding sharding.Encoding
		Payload  []byte
		// Deadline is when the turn stops waiting, if that is earlier than its command wants it;
		// zero: it is not.
		Deadline time.Time
		Trace    string
	}
	// Asked answers SendAsk.
	Asked struct {
		Incarnation Incarnation
		Number      uint64
		Reply       sharding.Reply
	}
	// WithdrawAsk: the turn does not want to wait for the answer any more. If the ask has not
	// left, it never does. The AskDone follows at once, unless it has come before.
	WithdrawAsk struct {
		Incarnation Incarnation
		Number      uint64
	}
	// Stopped answers Stop: the stop hook has run, the instance is gone.
	Stopped struct {
		Incarnation Incarnation
		// Kept is the state after the stop hook, if Stop asks for it and the instance can
		// write it down. Its id and its timers are not used.
		Kept *Kept
	}
	// Drain lets a shard finish the commands it accepted and stop its entities. After
	// Config.DrainTimeout it is aborted. The answer is Drained, once all its appends
	// are settled.
	Drain struct{ Shard sharding.ShardID }
	// Abort ends a shard at once: another region owns it. Waiting commands are
	// answered NotMine; those in an append under way wait for its outcome. The answer
	// is Drained.
	Abort struct{ Shard sharding.ShardID }
	// SetPassivation gives a type another strategy. It is ignored if the type is not known or
	// the strategy is not valid.
	SetPassivation struct {
		Type     sharding.EntityType
		Strategy passivation.Strategy
	}
	// Collected says that the garbage collection of a number has ended, and how many bytes of
	// the heap were live after it. Above Config.HeapBytes entities of all types are
	// passivated, except those of types that never are.
	Collected struct{ Cycle, Live uint64 }
	// Tick lets time pass: deadlines, timers, passivation.
	Tick struct{}
)

// Wakeup is a wake-up that is due.
type Wakeup struct {
	sharding.WakeRef
	// Due is when it was due and Next when it is due again, in Unix milliseconds; 0: never.
	Due, Next int64
	// Missed is how many times it was due between these two and did not fire.
	Missed int64
	// Late is how long ago it was due when it was fired, by the clock that says so.
	Late  time.Duration
	Input sharding.Input
	// Answer is what a command of kind SendWake takes instead of Input.Payload.
	Answer *Answered
}

// Answered is how a send of the entity has ended.
type Answered struct {
	From sharding.Entity // its target
	// Sent is what was sent to it, and SentAt when the record that says so was stored.
	Sent   sharding.Input
	SentAt time.Time
	// Reply is the target's answer. One that is Rejected or Unknown was made when the send
	// was given up.
	Reply sharding.Reply
}

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
	// Passivated: the entity was idle for long, or asked to be stopped.
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
	// looked up. Every Load must be answered once, even if no command waits for it
	// any more: until then it counts towards Config.EntityLoads and Config.TotalLoads.
	Load struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Lookup      []sharding.CommandID
		// Volatile: nothing is stored; make a new instance.
		Volatile bool
		// Kept is the state that the owner before has kept, if there is one. If the type
		// cannot read it, the instance begins empty.
		Kept *Kept
		// LookupOnly: the region has lost the shard. No instance is made; only the
		// commands whose outcome is in doubt are looked up.
		LookupOnly bool
		// Wakes asks which wake-ups the entity has: Loaded.Remembered and Loaded.Reminders.
		Wakes bool
		// Background says that no command waits for the entity.
		Background bool
		// Bare: built-in commands wait for the entity, and it could not be brought to life. They
		// need no instance, and none is made: nothing of the author's program runs.
		Bare bool
	}
	// Lookup asks the journal for one command of a living entity, whose next turn
	// waits for the answer, LookedUp.
	Lookup struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		ID          sharding.CommandID
	}
	// ReadSend asks the journal for a send of a living entity, whose running turn waits for the
	// answer, SendRead.
	ReadSend struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Incarnation Incarnation
		Request     RequestID
		Seq         uint64
		Place       uint16
	}
	// Run executes one turn on the instance. It is a pointer to memory that is reused
	// after TurnDone.
	Run struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Request     RequestID
		// Turn is another number for each turn.
		Turn uint64
		// Env must not be changed.
		Env      *sharding.Envelope
		ReadOnly bool
		// Fresh says that no turn before this one has left a record in this life of the entity.
		Fresh bool
		// Timer says that the command is a timer's.
		Timer bool
		// Wakeup is the wake-up whose command it is; nil: none. Its input is that of Env.
		Wakeup *Wakeup
	}
	// Cancel cancels the context of a running turn: its result is no longer wanted.
	Cancel struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Request     RequestID
	}
	// SendAsk sends a command to another entity. It is answered by one Asked, at its deadline
	// at the latest.
	SendAsk struct {
		Incarnation Incarnation
		Number      uint64
		Env         sharding.Envelope
		ReadOnly    bool
	}
	// SendProbe sends a command that nobody waits for; it may get lost.
	SendProbe struct{ Env sharding.Envelope }
	// AskDone lets the turn that has asked go on. With the outcome Rejected, its command was
	// not sent, or was refused.
	AskDone struct {
		Incarnation Incarnation
		Number      uint64
		Reply       sharding.Reply
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
	// Snapshot asks the instance for its state, to be stored as of Seq. Seq is
	// durable, and is the last record applied to the instance.
	Snapshot struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Seq         uint64
		// Cut is the record up to which the journal may remove events with the snapshot; 0: none.
		Cut uint64
	}
	// Stop runs the stop hook of an instance and drops it. Answered by Stopped.
	Stop struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Reason      StopReason
		// Keep: the answer is to have the state, for the next owner.
		Keep bool
	}
	// Drop forgets an instance without its stop hook: the incarnation ended.
	Drop struct {
		Entity      sharding.Entity
		Incarnation Incarnation
	}
	// Answer ends a delivered command. It is a pointer to memory that is reused after
	// [Machine.Recycle].
	Answer struct {
		Request RequestID
		Reply   sharding.Reply
	}
	// TellDone reports the outcome of a command without a waiting caller: a tell,
	// which was answered when it was accepted, or the command of a timer or a wake-up.
	TellDone struct {
		Entity  sharding.Entity
		Command string
		Timer   bool
		// Wakeup is the name of the wake-up whose command it was; with Again, that command
		// will run again.
		Wakeup  string
		Again   bool
		Trace   string
		Arrived time.Time
		Reply   sharding.Reply
	}
)

// String shows the command, not its address: traces must be reproducible.
func (r *Run) String() string {
	return fmt.Sprintf("{Entity:%v Shard:%v Epoch:%v Incarnation:%v Request:%d Env:%+v ReadOnly:%t Timer:%t%s}",
		r.Entity, r.Shard, r.Epoch, r.Incarnation, r.Request, *r.Env, r.ReadOnly, r.Timer, r.Wakeup.text())
}

func (w *Wakeup) text() string {
	if w == nil {
		return ""
	}
	if w.Answer != nil {
		return fmt.Sprintf(" Wakeup:%+v Answer:%+v", w.WakeRef, *w.Answer)
	}
	return fmt.Sprintf(" Wakeup:%+v", *w)
}

func (Open) input()        {}
func (Fire) input()        {}
func (Activate) input()    {}
func (Deliver) input()     {}
func (Loaded) input()      {}
func (LookedUp) input()    {}
func (SendRead) input()    {}
func (TurnDone) input()    {}
func (Appended) input()    {}
func (FenceRead) input()   {}
func (SendsEnded) input()  {}
func (Ask) input()         {}
func (Asked) input()       {}
func (WithdrawAsk) input() {}
func (Stopped) input()     {}
func (Drain) input()       {}
func (Abort) input()       {}
func (Tick) input()        {}

func (Load) output()      {}
func (Lookup) output()    {}
func (ReadSend) output()  {}
func (*Run) output()      {}
func (Cancel) output()    {}
func (SendAsk) output()   {}
func (SendProbe) output() {}
func (AskDone) output()   {}
func (Append) output()    {}
func (ReadFence) output() {}
func (Snapshot) output()  {}
func (Stop) output()      {}
func (Drop) output()      {}
func (*Answer) output()   {}
func (TellDone) output()  {}
