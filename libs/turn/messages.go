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

// Incarnation identifies one incarnation of an entity in this machine. Results of slow jobs carry
// it; the machine drops results of incarnations that have ended. It consists of the entity's slot
// and a number. The number repeats only after four billion incarnations. 0 is none.
type Incarnation uint64

func incarnation(slot, number uint32) Incarnation {
	return Incarnation(number)<<32 | Incarnation(slot)
}

// Slot is a small number that no other entity in the machine has at the same time, so that a
// driver can keep its instances in a slice. Slots are reused: by the entity's next incarnation,
// and, when the entity is gone, by other entities.
func (i Incarnation) Slot() uint32 { return uint32(i) }

// String is "number@slot".
func (i Incarnation) String() string { return fmt.Sprintf("%d@%d", uint64(i)>>32, i.Slot()) }

// Inputs.
type (
	// Open: the shard is claimed at the epoch; its entities may live.
	Open struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Kept are the states that the previous owner has kept.
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
	// Fire runs the command of a wake-up that is due. No caller waits for the command's reply.
	// It ends with exactly one FiringEnded.
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
		// Life is the number of the entity's life: the sequence number of the entity's newest
		// delete record; 0: it was never deleted.
		Life uint64
		// Trimmed: events of this life may have been trimmed, so that only a snapshot has the state.
		Trimmed bool
		// Fresh: no turn has left a record in this life of the entity.
		Fresh bool
		// Pending is how many sends of the entity's records are pending.
		Pending int
		// RememberedActivity is when the entity was last active, in Unix milliseconds; 0: it is not
		// remembered. It is set if Load.Wakes asks for it.
		RememberedActivity int64
		// Reminders is how many of its reminders stand. It is set if Load.Wakes asks for it.
		Reminders int
		// Size is an estimate of the memory that the instance takes, in bytes; 0: not known.
		Size int
		// Err says why there is no instance; empty: there is one. If Retry is false, the entity has
		// failed: a record has a wrong checksum, for example, or the replay has panicked. Its commands
		// are then rejected with Err and Code.
		Err  string
		Code sharding.Code
		// Retry says that the load is to be repeated, because the store could not be reached, for
		// example.
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
	// ReadSendDone answers ReadSend.
	ReadSendDone struct {
		Incarnation Incarnation
		Request     RequestID
		// State is SendDone if there is no such send.
		State sharding.SendState
		Send  sharding.Send
		// Err and Code say why the send could not be read. Err is empty if it was read.
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
		// Forgotten: the entity is no longer to be a remembered entity.
		Forgotten bool
		Timers    []Timer
		// Size is an estimate of the memory that the instance takes, in bytes; 0: not known.
		Size int
		// Handler is how long the handler ran.
		Handler time.Duration
	}
	// Appended answers Append.
	Appended struct {
		Incarnation Incarnation
		Seq         uint64 // of the unit's first record
		Verdict     sharding.Verdict
		// Fence is the stored fence, if the verdict is RefusedEpoch.
		Fence sharding.Fence
		// Reason says why the append was refused, if the verdict is RefusedFull (disk full,
		// queue full), RefusedTooLarge or RefusedDamaged.
		Reason string
		// At is when the records were stored, if the verdict is Durable.
		At time.Time
	}
	// SendsEnded: pending sends of the entity have ended, and that is durable. A send that ends with
	// the turn of a Fire (FiringDone) is not reported in this way.
	SendsEnded struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		Seqs   []uint64 // for each of the sends, the number of its record
	}
	// FenceRead answers ReadFence.
	FenceRead struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Fence
		// Reason says why the read was refused, if the verdict is RefusedDamaged.
		Reason string
	}
	// Ask: a running turn sends a command to another entity and waits for the answer. It ends with
	// exactly one AskDone, even if the turn, its incarnation or the shard ends first.
	Ask struct {
		Incarnation Incarnation
		Turn        uint64 // Run.Turn of the running turn
		// Number is chosen by the driver. No two asks of an incarnation have the same number.
		Number  uint64
		Target  sharding.Entity
		Command string
		// ReadOnly says that the command changes nothing.
		ReadOnly bool
		// Key is the idempotency key, if the author has chosen one.
		Key sharding.CommandID
		// Step is the name from which the key is derived, if the author has chosen one. If Key and
		// Step are empty, the key is derived from the target, the command, and the number of times
		// that the turn has sent this command to this target before.
		Step     string
		Encoding sharding.Encoding
		Payload  []byte
		// Deadline ends the waiting, if it is not zero. The machine also sets a limit: a share of
		// the time that the turn's own command has left or, if that command has no deadline,
		// Config.AskTimeout. The earlier of the two counts.
		Deadline time.Time
		Trace    string
	}
	// AskAnswered answers SendAsk.
	AskAnswered struct {
		Incarnation Incarnation
		Number      uint64
		Reply       sharding.Reply
	}
	// WithdrawAsk: the turn does not want to wait for the answer any more. An ask that has not
	// left yet never leaves. AskDone follows at once, unless the ask has ended before.
	WithdrawAsk struct {
		Incarnation Incarnation
		Number      uint64
	}
	// Stopped answers Stop: the stop hook has run, the instance is gone.
	Stopped struct {
		Incarnation Incarnation
		// Kept is the state after the stop hook, if Stop.Keep asks for it and the instance can
		// write it down. Kept.ID and Kept.Timers are not used.
		Kept *Kept
	}
	// Drain lets a shard finish the commands that it has accepted, and stops its entities. After
	// Config.DrainTimeout the shard is aborted. The answer is Drained, once all appends of the
	// shard are settled.
	Drain struct{ Shard sharding.ShardID }
	// Abort ends a shard at once: another region owns it. Commands that wait are answered NotMine.
	// Commands in an append under way wait for its outcome. The answer is Drained.
	Abort struct{ Shard sharding.ShardID }
	// SetPassivation gives a type another strategy. It is ignored if the type is not known or
	// the strategy is not valid.
	SetPassivation struct {
		Type     sharding.EntityType
		Strategy passivation.Strategy
	}
	// Collected: garbage collection number Cycle has ended, and Live bytes of the heap were in use
	// after it. If Live is above Config.HeapBytes, the machine passivates entities, of all types
	// that allow it.
	Collected struct{ Cycle, Live uint64 }
	// Tick lets time pass: deadlines, timers, passivation.
	Tick struct{}
)

// Wakeup is a wake-up that is due.
type Wakeup struct {
	sharding.WakeRef
	// Due is the time at which it was due, in Unix milliseconds.
	Due int64
	// Next is the time at which it is due again, in Unix milliseconds; 0: never.
	Next int64
	// Missed is how many times it was due between Due and Next and did not fire.
	Missed int64
	// Late is the time from Due to the firing, by the clock of the journal's store.
	Late  time.Duration
	Input sharding.Input
	// Answer is set if the kind is SendWake: the command takes it as its input, and Input.Payload
	// is empty.
	Answer *SendResult
}

// SendResult says how a send of the entity has ended.
type SendResult struct {
	Target sharding.Entity
	Sent   sharding.Input // what was sent to the target
	SentAt time.Time      // when the record with the send was stored
	// Reply is the answer of the target, or says why the send was given up.
	Reply sharding.Reply
}

// Timer is a timer of an entity: it is in memory only, and ends with the incarnation.
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
	// Load makes an instance, replays the snapshot and the events, and looks commands up. Every
	// Load must be answered once, even if no command waits for it any more: until then it counts
	// towards Config.EntityLoads and Config.TotalLoads.
	Load struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Lookup      []sharding.CommandID
		// Volatile: nothing is stored; make a new instance.
		Volatile bool
		// Kept is the state of the entity that the previous owner has kept, if it has. If the type
		// cannot read it, the instance begins empty.
		Kept *Kept
		// LookupOnly: the region has lost the shard. No instance is made; only the
		// commands whose outcome is in doubt are looked up.
		LookupOnly bool
		// Wakes asks which wake-ups the entity has: Loaded.RememberedActivity and Loaded.Reminders.
		Wakes bool
		// Background says that no command waits for the entity.
		Background bool
		// Bare: built-in commands wait for an entity that could not be brought to life. These
		// commands need no instance, so none is made: no code of the author runs.
		Bare bool
	}
	// Lookup asks the journal whether a command of a living entity is stored. The command's turn
	// waits for the answer, LookedUp.
	Lookup struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		ID          sharding.CommandID
	}
	// ReadSend asks the journal for a send of a living entity. The entity's running turn waits for
	// the answer, ReadSendDone.
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
		// Turn is the number of the turn. No two turns have the same number.
		Turn uint64
		// Env must not be changed.
		Env      *sharding.Envelope
		ReadOnly bool
		// Fresh says that no turn before this one has left a record in this life of the entity.
		Fresh bool
		// Timer says that the command is that of a timer.
		Timer bool
		// Wakeup is the wake-up whose command runs; nil: none. Env has the input of Wakeup.
		Wakeup *Wakeup
	}
	// Cancel cancels the context of a running turn: its result is no longer wanted.
	Cancel struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Request     RequestID
	}
	// SendAsk sends a command to another entity. It is answered by one AskAnswered, by the deadline of
	// the command at the latest.
	SendAsk struct {
		Incarnation Incarnation
		Number      uint64
		Env         sharding.Envelope
		ReadOnly    bool
	}
	// SendProbe sends a probe. Nobody waits for its answer, and it may get lost.
	SendProbe struct{ Env sharding.Envelope }
	// AskDone lets the turn that has asked go on. The outcome Rejected says that the command was
	// not sent to the other entity, or was refused there.
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
	// Snapshot asks the instance for its state, and stores it as the snapshot at Seq. Record Seq
	// is durable, and no later record has been applied to the instance.
	Snapshot struct {
		Entity      sharding.Entity
		Shard       sharding.ShardID
		Epoch       sharding.Epoch
		Incarnation Incarnation
		Seq         uint64
		// Cut is the record up to which the journal may remove events with the snapshot; 0: none.
		Cut uint64
	}
	// Stop runs the stop hook of an instance and drops the instance. Answered by Stopped.
	Stop struct {
		Entity      sharding.Entity
		Incarnation Incarnation
		Reason      StopReason
		// Keep: the answer must have the state, for the next owner of the shard.
		Keep bool
	}
	// Drop drops an instance without running its stop hook: the incarnation has ended.
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
		// Wakeup is the wake-up whose command it was; with Again, that command will run again.
		// Zero: there is none.
		Wakeup  sharding.WakeRef
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

func (Open) input()         {}
func (Fire) input()         {}
func (Activate) input()     {}
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
