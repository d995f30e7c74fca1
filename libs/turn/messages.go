package turn

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is one message to the entity execution core. The set is closed.
type Input interface{ input() }

// Output is one action that the driver must perform. The driver performs outputs in their order. The
// set is closed.
type Output interface{ output() }

// RequestID names a delivered command. The caller chooses it. No two unanswered commands have the
// same RequestID.
type RequestID uint64

// Incarnation identifies one incarnation of an entity in this machine. The result of a slow job
// carries the Incarnation of that job. If that incarnation has ended, the machine drops the result.
// An Incarnation consists of the entity's slot and a number. The number repeats only after four
// billion incarnations. The Incarnation 0 means that there is none.
type Incarnation uint64

func incarnation(slot, number uint32) Incarnation {
	return Incarnation(number)<<32 | Incarnation(slot)
}

// Slot is a small number. No two entities in the machine have the same slot at the same time, so a
// driver can keep its instances in a slice. The next incarnation of the entity has the same slot.
// When the entity is gone, another entity may get the slot.
func (i Incarnation) Slot() uint32 { return uint32(i) }

// String returns "number@slot".
func (i Incarnation) String() string { return fmt.Sprintf("%d@%d", uint64(i)>>32, i.Slot()) }

// Inputs.
type (
	// Open: the shard is claimed at the epoch. From now on its entities may live.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Kept has the states of entities that the previous owner of the shard has kept.
		Kept []Kept
	}
	// Deliver delivers a command for an entity of an open shard. Each Deliver ends with exactly one
	// Answer or one NotMine.
	Deliver struct {
		Request RequestID
		Shard   sharding.ShardID
		// Env is the command. The machine copies it.
		Env *sharding.Envelope
	}
	// Fire runs the command of a wake-up that is due. No caller waits for the command's reply. Each
	// Fire ends with exactly one FiringEnded.
	Fire struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		Wakeup Wakeup
	}
	// StartEntity brings an entity to life without a command. Each StartEntity ends with exactly one
	// StartEnded.
	StartEntity struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
	}
	// Loaded answers Load, with [Loaded.Found] or [Loaded.NotFound]. If Err is empty, the driver has an instance of the entity. The instance has
	// replayed its snapshot and its events up to LastSeq.
	Loaded struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		LastSeq     uint64
		// Events is the number of events that were replayed after the snapshot. A record without
		// events counts as one event. Bytes is the size of these events.
		Events, Bytes int
		// Stored has the stored data of the commands that were looked up. A command that is not
		// stored is absent.
		Stored map[sharding.CommandID]sharding.Stored
		// Timers are the timers that the start hook has set.
		Timers []Timer
		// Life is the number of the entity's life: the sequence number of the entity's newest
		// delete record. 0: the entity was never deleted.
		Life uint64
		// Trimmed: the journal may have trimmed events of this life. In this case, only a snapshot
		// has the state.
		Trimmed bool
		// Fresh: no turn has left a record in this life of the entity.
		Fresh bool
		// Pending is the number of pending sends in the entity's records.
		Pending int
		// RememberedActivity is the time at which the entity was last active, in Unix milliseconds.
		// 0: the entity is not a remembered entity. The driver sets RememberedActivity if Load.Wakes
		// is set.
		RememberedActivity int64
		// Reminders is the number of reminders that the entity has set. The driver sets Reminders if
		// Load.Wakes is set.
		Reminders int
		// Size is an estimate of the memory that the instance takes, in bytes; 0: not known.
		Size int
		// Cause is the error itself, for those who read the results of firings and sends: operators, and not
		// clients. It goes with Err.
		Cause string
		// Err is the reason why there is no instance. Empty: there is an instance. If Err is set and
		// Retry is false, the entity has failed: for example, a record has a wrong checksum, or the
		// replay has panicked. The machine then rejects the entity's commands with Err and Code.
		Err  string
		Code sharding.Code
		// Retry is true if the machine must repeat the load. For example, the driver could not reach the store.
		Retry bool
	}
	// LookedUp answers Lookup.
	LookedUp struct {
		Incarnation Incarnation
		ID          sharding.CommandID
		// Found is true if the command is stored, or if its idempotency key has expired (Stored.Expired).
		Found  bool
		Stored sharding.Stored
		// Failed: the journal did not answer.
		Failed bool
	}
	// ReadSendDone answers ReadSend.
	ReadSendDone struct {
		Incarnation Incarnation
		Request     RequestID
		// State is SendDone if the journal has no such send.
		State sharding.SendState
		Send  sharding.Send
		// Err and Code say why the driver could not read the send. If the driver has read it, Err is
		// empty.
		Code sharding.Code
		Err  string
	}
	// TurnDone ends a Run. The driver has already applied Events to the instance.
	TurnDone struct {
		Incarnation Incarnation
		Request     RequestID
		Events      []sharding.Event
		// Wakes are the wake-ups that the turn sets or removes. Each name occurs at most once.
		Wakes []sharding.Wake
		// Sends are commands to other entities. They are delivered when the turn is durable.
		Sends []sharding.Send
		// Deleted: the turn has deleted the entity. The machine drops the turn's Wakes and Timers.
		Deleted bool
		Reply   sharding.Reply
		// Spoiled: the handler failed or panicked after it had staged events. The machine discards
		// the turn and ends the incarnation.
		Spoiled bool
		// Passivate: the entity has asked to be stopped when it is idle.
		Passivate bool
		// Forgotten is true if the turn called Ctx.Forget: the entity is to be no longer remembered.
		Forgotten bool
		Timers    []Timer
		// Size is an estimate of the memory that the instance takes, in bytes; 0: not known.
		Size int
		// Handler is the run time of the handler.
		Handler time.Duration
	}
	// Appended answers Append.
	Appended struct {
		Incarnation Incarnation
		Seq         uint64 // of the unit's first record
		Verdict     sharding.Verdict
		// Fence is the stored fence, if the verdict is RefusedEpoch.
		Fence sharding.Fence
		// Reason is the journal's reason for refusing the append. It is set if the verdict is RefusedFull (the
		// disk or the queue is full), RefusedTooLarge or RefusedDamaged.
		Reason string
		// At is the time at which the records were stored, if the verdict is Durable.
		At time.Time
	}
	// SendsEnded: pending sends of the entity have ended, and the journal has stored their end. If a
	// send ends with the turn of a Fire (FiringDone), no SendsEnded reports its end.
	SendsEnded struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		Seqs   []uint64 // for each of these sends, the sequence number of its record
	}
	// FenceRead answers ReadFence.
	FenceRead struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Fence
		// Reason is the journal's reason for refusing the read, if the verdict is RefusedDamaged.
		Reason string
	}
	// Ask: a running turn sends a command to another entity and waits for the answer. Each Ask ends
	// with exactly one AskDone, even if the turn, its incarnation or the shard ends first.
	Ask struct {
		Incarnation Incarnation
		Turn        uint64 // Run.Turn of the running turn
		// Number is a number that the driver chooses. No two asks of an incarnation have the same
		// number.
		Number  uint64
		Target  sharding.Entity
		Command string
		// ReadOnly is true if the command changes nothing.
		ReadOnly bool
		// Key is the idempotency key, if the author has chosen a key.
		Key sharding.CommandID
		// If the author has chosen a name, KeyName is that name, and the machine derives the key from
		// it. If Key and KeyName are empty, the machine derives the key from the target, the command
		// and a count: how many times the turn has sent this command to this target before.
		KeyName  string
		Encoding sharding.Encoding
		Payload  []byte
		// Deadline is the time until which the turn waits at most; zero: no such time. The machine
		// also has a limit of its own. If the turn's command has a deadline, the limit is a share of
		// the command's remaining time; else the limit is Config.AskTimeout. The earlier time counts.
		Deadline time.Time
		Trace    string
	}
	// AskAnswered answers SendAsk.
	AskAnswered struct {
		Incarnation Incarnation
		Number      uint64
		Reply       sharding.Reply
	}
	// WithdrawAsk: the turn no longer waits for the answer of an Ask. If the machine has not emitted
	// the SendAsk yet, it never will. AskDone follows at once, unless the Ask has already ended.
	WithdrawAsk struct {
		Incarnation Incarnation
		Number      uint64
	}
	// Stopped answers Stop: the stop hook has run, and the instance is gone.
	Stopped struct {
		Incarnation Incarnation
		// Kept is the state of the instance after the stop hook. Kept is nil if Stop.Keep is not set,
		// or if the instance cannot encode its state. The driver leaves Kept.ID and Kept.Timers empty.
		Kept *Kept
	}
	// Drain lets a shard finish the commands that it has accepted, and then stops its entities. After
	// Config.DrainTimeout, the machine aborts the shard. When all appends of the shard are settled,
	// the machine answers with Drained.
	Drain struct{ Shard sharding.ShardID }
	// Abort ends a shard at once, because another region owns the shard. The machine answers waiting
	// commands with NotMine. If an append in progress has a command's records, the command waits for the
	// outcome of the append. When all appends of the shard are settled, the machine answers with
	// Drained.
	Abort struct{ Shard sharding.ShardID }
	// SetPassivation gives a type another strategy. If the type is not known or the strategy is not
	// valid, the machine ignores the input.
	SetPassivation struct {
		Type     sharding.EntityType
		Strategy passivation.Strategy
	}
	// Collected: a garbage collection has ended. Cycle is its number, and Live is the number of bytes
	// of the heap that were in use after it. If Live is above Config.HeapBytes, the machine passivates
	// entities of all types that allow passivation.
	Collected struct{ Cycle, Live uint64 }
	// Tick lets the machine check the time, for deadlines, timers and passivation.
	Tick struct{}
)

// Wakeup is a wake-up that is due.
type Wakeup struct {
	sharding.WakeRef
	// Due is the time at which the wake-up was due, in Unix milliseconds.
	Due int64
	// Next is the time at which the wake-up is due again, in Unix milliseconds. 0: it is never due
	// again.
	Next int64
	// Missed is the number of times that the wake-up was due between Due and Next without firing.
	Missed int64
	// Late is the time from Due to the firing, by the clock of the journal's store.
	Late  time.Duration
	Input sharding.Input
	// Answer is set if the kind is SendWake. The command then takes Answer as its input, and
	// Input.Payload is empty.
	Answer *SendResult
}

// SendResult is the result of a send of the entity that has ended.
type SendResult struct {
	Target sharding.Entity
	Sent   sharding.Input // the input that was sent to the target
	SentAt time.Time      // the time at which the record with the send was stored
	// Reply is the answer of the target. If the send was given up, Reply holds the reason.
	Reply sharding.Reply
}

// Timer is a timer of an entity. A timer exists only in memory, and ends with the incarnation.
type Timer struct {
	Name string
	// After is the time until the first firing. 0 or less: the timer is cancelled.
	After time.Duration
	// Every is the time between two firings. 0: the timer fires once.
	Every   time.Duration
	Command string
	// Encoding and Payload are the command's input.
	Encoding sharding.Encoding
	Payload  []byte
}

// StopReason is the reason for stopping an instance.
type StopReason uint8

const (
	// Passivated: the entity was idle for long, was chosen to free memory, or has asked to be stopped.
	Passivated StopReason = iota + 1
	// HandedOff: the shard moves, or the region drains.
	HandedOff
)

// String returns "passivated" or "handed-off".
func (r StopReason) String() string {
	if r == HandedOff {
		return "handed-off"
	}
	return "passivated"
}

// Outputs.
type (
	// Load makes an instance, replays the snapshot and the events, and looks commands up. The driver
	// must answer every Load once, even if no command waits for the entity any more. Until the answer,
	// the Load counts towards Config.EntityLoads and Config.TotalLoads.
	Load struct {
		// LoadRequest is the request to the journal. With LookupOnly, the region has lost the shard. The driver makes
		// no instance. It only looks up the commands in Lookup, whose outcomes are in doubt. With Wakes, the
		// driver sets Loaded.RememberedActivity and Loaded.Reminders.
		journal.LoadRequest
		Epoch       sharding.Epoch
		Incarnation Incarnation
		// Volatile: the journal has no data of the entity. The driver makes a new instance.
		Volatile bool
		// Kept is the state of the entity that the previous owner of the shard has kept; nil: none. If
		// the type cannot read this state, the instance begins empty.
		Kept *Kept
		// Bare: built-in commands wait for an entity that could not be brought to life. These
		// commands need no instance, so the driver makes none. No code of the author runs.
		Bare bool
		// Suspect is as in Run.
		Suspect bool
	}
	// Lookup asks the journal whether a command of a living entity is stored. The command's turn
	// begins after the answer, LookedUp.
	Lookup struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		ID          sharding.CommandID
	}
	// ReadSend reads a send of a living entity from the journal. The entity's running turn waits for
	// the answer, ReadSendDone.
	ReadSend struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Incarnation Incarnation
		Request     RequestID
		Seq         uint64
		Place       uint16
	}
	// Run executes one turn on the instance. The output is a pointer to memory that the machine uses
	// again after TurnDone.
	Run struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Request     RequestID
		// Turn is the number of the turn. No two turns have the same number.
		Turn uint64
		// Env is the command of the turn. The driver must not change it.
		Env      *sharding.Envelope
		ReadOnly bool
		// New is true if the entity has no instance: the driver makes an empty one for this turn (see
		// Type.NoLoad). If that fails, TurnDone has the refusal of the command, and Spoiled.
		New bool
		// Fresh is true if no turn before this one has left a record in this life of the entity.
		Fresh bool
		// Timer is true if a timer has caused the command.
		Timer bool
		// Wakeup is the wake-up whose command runs; nil: no wake-up has caused the command. Env has
		// the input of Wakeup.
		Wakeup *Wakeup
		// Suspect: the entity is a suspect (see sharding.Quarantined). The driver runs the turns and loads
		// of suspects one at a time. If one of them hangs, the next one may begin after a while.
		Suspect bool
	}
	// Cancel cancels the context of a running turn. The machine no longer needs the turn's result.
	Cancel struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Request     RequestID
	}
	// Abandoned reports that a turn was abandoned, because it did not end before the drain timeout of its
	// shard. It comes before the turn's Cancel.
	Abandoned struct {
		Entity  sharding.Entity
		Command string
		Began   time.Time
	}
	// SendAsk sends a command to another entity. The driver answers it with one AskAnswered, at the
	// latest at the deadline of the command.
	SendAsk struct {
		Incarnation Incarnation
		Number      uint64
		Env         sharding.Envelope
		ReadOnly    bool
	}
	// SendProbe sends a probe. The machine waits for no answer, and the probe may get lost.
	SendProbe struct{ Env sharding.Envelope }
	// AskDone ends an Ask, and lets its turn go on. The outcome Rejected means that the command was not sent to
	// the other entity, or that the other entity's region has refused it.
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
	// ReadFence adds a read of the shard's fence to the next batch of the journal.
	ReadFence struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Number uint64
	}
	// Snapshot asks the instance for its state, and stores the state as the snapshot at Seq. Record
	// Seq is durable, and the instance has applied no later record.
	Snapshot struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Seq         uint64
		// Cut is the last record whose events the journal may remove when it stores the snapshot. 0:
		// the journal may remove none.
		Cut uint64
	}
	// Stop runs the stop hook of an instance and drops the instance. The driver answers with Stopped.
	Stop struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Reason      StopReason
		// Keep: Stopped must have the state of the instance, for the next owner of the shard.
		Keep bool
	}
	// Drop drops an instance whose incarnation has ended. The stop hook does not run.
	Drop struct {
		Entity      sharding.Entity
		Incarnation Incarnation
	}
	// Answer ends a delivered command. The output is a pointer to memory that the machine uses again
	// after [Machine.Recycle].
	Answer struct {
		Request RequestID
		Reply   sharding.Reply
	}
	// UnwatchedDone reports the outcome of a command without a waiting caller. There are two cases: a
	// tell, which was answered when it was accepted, and the command of a timer or a wake-up. Like an
	// Answer, it is a pointer to memory that is used again.
	UnwatchedDone struct {
		Entity  sharding.Entity
		Command string
		Timer   bool
		// Wakeup is the wake-up that has caused the command; zero: none. If Again is set, the wake-up's
		// command will run again.
		Wakeup  sharding.WakeRef
		Again   bool
		Trace   string
		Arrived time.Time
		Reply   sharding.Reply
	}
)

// String shows the command instead of its address, because traces must be reproducible.
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

func (Open) input()         {}
func (Fire) input()         {}
func (StartEntity) input()  {}
func (Deliver) input()      {}
func (Loaded) input()       {}
func (LookedUp) input()     {}
func (ReadSendDone) input() {}
func (TurnDone) input()     {}
func (Appended) input()     {}
func (FenceRead) input()    {}
func (SendsEnded) input()   {}
func (Ask) input()          {}
func (AskAnswered) input()  {}
func (WithdrawAsk) input()  {}
func (Stopped) input()      {}
func (Drain) input()        {}
func (Abort) input()        {}
func (Tick) input()         {}

func (Load) output()           {}
func (Lookup) output()         {}
func (ReadSend) output()       {}
func (*Run) output()           {}
func (Cancel) output()         {}
func (Abandoned) output()      {}
func (SendAsk) output()        {}
func (SendProbe) output()      {}
func (AskDone) output()        {}
func (Append) output()         {}
func (ReadFence) output()      {}
func (Snapshot) output()       {}
func (Stop) output()           {}
func (Drop) output()           {}
func (*Answer) output()        {}
func (*UnwatchedDone) output() {}
