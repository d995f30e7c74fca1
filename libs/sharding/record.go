package sharding

import (
	"crypto/sha256"
	"fmt"
)

// Record is one entry of an entity's journal: what one turn stored. It holds events, or
// the stored reply of a keyed command, or both. A Record with neither settles an
// unknown outcome.
type Record struct {
	Seq     uint64 // 1, 2, 3, … per entity, without gaps
	Command CommandID
	Hash    Hash // CommandHash of the command
	Events  []Event
	// Wakes set wake-ups of the entity, or remove them; each name at most once.
	Wakes []Wake
	// Sends are commands to other entities, which are delivered after the record is durable.
	Sends []Send
	// Delete ends a life of the entity: it is empty after this record, and its wake-ups are gone.
	// The life that begins has the number Seq; the first one has 0. A record that deletes sets no
	// wake-ups; its sends are delivered.
	Delete bool
	// Operator: a built-in command that does not delete the entity has left it. It is not content
	// of the life that it is in: a life without other records is as good as new.
	Operator bool
	Reply    Reply // stored for duplicates; Timing is not kept
}

// Content reports whether the record is content of the life that it is in. A record that settles an
// unknown outcome is none: it states that a turn has left nothing. Nor is an operator's record.
func (r *Record) Content() bool {
	return !r.Operator && (r.Command != "" || len(r.Events)+len(r.Wakes)+len(r.Sends) > 0)
}

// WakeKind is the reason why an entity must come to life without a call.
type WakeKind uint8

const (
	// ReminderWake: at its time, to run a command.
	ReminderWake WakeKind = iota + 1
	// RememberWake: whenever its shard starts.
	RememberWake
	// SendWake: to take the answer to one of its sends. It has no row of its own: the send itself
	// stands. The Seq of its WakeRef is the record's Seq, the Number is the place of the send in
	// the record.
	SendWake
	// PurgeWake is the kind of a deleted entity's row: the time of the next check whether its remains may be
	// removed. Records do not set it; the journal does (see [Record.Delete]).
	PurgeWake
)

// Wake sets a wake-up of an entity, or removes it. There is one wake-up of a kind and name:
// setting it again replaces it.
type Wake struct {
	Kind WakeKind
	Name string // among the entity's wake-ups of the kind
	// Number counts the firings of the setting. A new one has 0.
	Number uint64
	// Due is the time, in Unix milliseconds; 0: the wake-up is removed. For a RememberWake, it is
	// the time of the entity's last activity, negated: in the order of these numbers the entity
	// that was active last comes first.
	Due    int64
	Period int64 // after which it is due again, in milliseconds; 0: it is due once
	Input  Input
}

// Check returns an error unless the times of the wake-up fit its kind.
func (w *Wake) Check() error {
	switch {
	case w.Kind < ReminderWake || w.Kind > RememberWake:
		return fmt.Errorf("wake-up %q is of kind %d, which does not exist", clip(w.Name), w.Kind)
	case len(w.Name) > MaxWakeNameLen:
		return fmt.Errorf("the name of wake-up %q has %d bytes, at most %d are allowed", clip(w.Name), len(w.Name), MaxWakeNameLen)
	case w.Period < 0:
		return fmt.Errorf("wake-up %q has the period %d ms, which is negative", clip(w.Name), w.Period)
	}
	return w.Kind.checkDue(w.Name, w.Due)
}

func (k WakeKind) checkDue(name string, due int64) error {
	if k == ReminderWake && due < 0 || k == RememberWake && due > 0 {
		return fmt.Errorf("wake-up %q is due at %d ms: it must not be negative for a reminder, and not positive for a remembered entity", clip(name), due)
	}
	return nil
}

// WakeRef identifies one setting of a wake-up, and counts the firings of that setting. A setting
// *stands* until the wake-up is set again or removed, or has fired for the last time.
type WakeRef struct {
	Kind   WakeKind
	Name   string
	Seq    uint64 // of the record that set it
	Number uint64 // how many times this setting has fired
}

// Fired records that the command of a wake-up has run. An append with a Fired is refused
// (RefusedWake) unless the setting stands, and has fired exactly Number times before.
type Fired struct {
	WakeRef
	// Next is the next due time, in Unix milliseconds; 0: the wake-up is removed.
	Next int64
}

// Check returns an error unless the times of the wake-up fit its kind.
func (f *Fired) Check() error {
	w := Wake{Kind: f.Kind, Name: f.Name, Due: f.Next}
	return w.Check()
}

// SendState is the state of a send.
type SendState uint8

const (
	// SendPending: it has not ended.
	SendPending SendState = iota
	// SendDone: its target has answered it, and nothing is left to do.
	SendDone
	// SendRefused: it is a dead letter. It had no effect, and its sender was not told.
	SendRefused
	// SendInDoubt: it is a dead letter. Whether it had an effect is not known.
	SendInDoubt
)

// Dead reports whether the send is a dead letter: it is not delivered any more, and no operator has
// dealt with it.
func (s SendState) Dead() bool { return s == SendRefused || s == SendInDoubt }

// String is a word for the state, such as "done".
func (s SendState) String() string {
	switch s {
	case SendPending:
		return "pending"
	case SendDone:
		return "done"
	case SendRefused:
		return "refused"
	case SendInDoubt:
		return "in doubt"
	}
	return "invalid"
}

// Delivered records that sends of a record have ended. A repeat changes nothing: a send that is
// done stays done, and a dead letter can only become done.
type Delivered struct {
	Seq   uint64    // of the record
	Sends []uint16  // their places in Record.Sends, from 0
	As    SendState // not SendPending
	// Once is true if something else of the append depends on it: the append is refused
	// (RefusedWake) if one of the sends is done already.
	Once bool
}

// Check returns an error unless the state is one in which a send can end.
func (d *Delivered) Check() error {
	if d.As < SendDone || d.As > SendInDoubt {
		return fmt.Errorf("sends of record %d end as %d, which is not an end", d.Seq, d.As)
	}
	return nil
}

// Send is a command that one entity sends to another after its record is durable.
type Send struct {
	To    Entity
	Input Input
	// ReplyTo is the command of the sender that takes the answer; empty: none does.
	ReplyTo string
	Options SendOptions
}

// Input is the input of a command that is stored until the command runs.
type Input struct {
	Command string
	// Version, ReadableBy and Shape come from the input's [Form].
	Version, ReadableBy uint16
	Shape               uint64
	Encoding            Encoding
	Payload             []byte
}

func (in *Input) size() int { return 24 + len(in.Command) + len(in.Payload) }

// Event is one state change in the words of the entity's author.
type Event struct {
	Name string
	// Version is the version of the event's form. Zero means that its author counts none.
	Version uint16
	// ReadableBy is the lowest version whose reader may ignore the fields that it does
	// not know.
	ReadableBy uint16
	Encoding   Encoding
	Payload    []byte
}

// SnapshotForm identifies the version of the entity type that a snapshot belongs to, so that one of
// another version is not taken for the current one.
type SnapshotForm struct {
	// Version is declared by the type's author.
	Version uint16
	// Shape is a fingerprint of the state's fields; 0: the author encodes snapshots.
	Shape uint64
}

// Form is the form of such snapshots if they must be read, see [FormOfSnapshot].
func (f SnapshotForm) Form() Form {
	return Form{Kind: FormOfSnapshot, Version: f.Version, Shape: f.Shape}
}

// Size is the record's size as limits in bytes count it.
func (r *Record) Size() int {
	return r.ReplaySize() + len(r.Reply.Payload) + len(r.Reply.Message)
}

// ReplaySize is the part of Size that a replay reads: all but the reply.
func (r *Record) ReplaySize() int {
	n := 64 + len(r.Command)
	for i := range r.Events {
		n += 20 + len(r.Events[i].Name) + len(r.Events[i].Payload)
	}
	for i := range r.Wakes {
		n += 24 + len(r.Wakes[i].Name) + r.Wakes[i].Input.size()
	}
	for i := range r.Sends {
		s := &r.Sends[i]
		n += 12 + len(s.To.Type) + len(s.To.ID) + len(s.ReplyTo) + s.Input.size()
	}
	return n
}

// Hash is the [CommandHash] of a command. The zero value stands for no command.
type Hash [HashSize]byte

// HashSize is the number of bytes of a [Hash].
const HashSize = 16

// CommandHash distinguishes commands with the same id: the first 128 bits of SHA-256 over the
// principal, a zero byte, the command name, a zero byte and the payload. Neither a principal nor
// a name has a zero byte in it.
//
// The hash is cryptographic because clients choose payloads and guess each other's keys: a client
// that sends first, with a payload made to collide, would receive the stored reply of another
// principal, or keep the command of that principal from running.
func CommandHash(principal, command string, payload []byte) Hash {
	var names [256]byte // on the stack; longer names are allocated
	h := sha256.New()
	head := append(append(names[:0], principal...), 0)
	h.Write(append(append(head, command...), 0))
	h.Write(payload)
	var sum [sha256.Size]byte
	return Hash(h.Sum(sum[:0])[:HashSize])
}

// Claim takes a shard for an owner at an epoch. It succeeds if the stored epoch is
// lower, or equal with the same owner (so that a claim whose reply was lost can be
// repeated).
type Claim struct {
	Shard ShardID
	Epoch Epoch
	Owner NodeUID
}

// Append adds records to one entity as a unit, with its wake-ups that have fired and its sends that
// were delivered: all of it or nothing. It is refused unless Epoch is the stored epoch of the
// shard, the first record follows the entity's last one, no record's command is stored already,
// each setting that has fired stands, and no send that may be delivered only once is done.
//
// What has fired takes effect before the records, in their order: the command of a wake-up may
// set that wake-up again.
type Append struct {
	Shard  ShardID
	Epoch  Epoch
	Entity Entity
	// Records have consecutive sequence numbers. There is at least one, unless something has
	// fired or was delivered.
	Records   []Record
	Fired     []Fired // each wake-up at most once
	Delivered []Delivered
}

// OnlyDelivers reports whether the append does nothing but say which sends have ended. It may
// then be in one batch with another append of the entity.
func (a *Append) OnlyDelivers() bool {
	if len(a.Records)+len(a.Fired) > 0 || len(a.Delivered) == 0 {
		return false
	}
	for i := range a.Delivered {
		if a.Delivered[i].Once {
			return false
		}
	}
	return true
}

// ReadFence asks whether the shard's stored epoch still is Epoch. The store must be
// read after this operation was handed to it.
type ReadFence struct {
	Shard ShardID
	Epoch Epoch
}

// Verdict is the journal's result of a claim, an append or a fence read.
type Verdict uint8

const (
	// Durable: done, and it survives a power cut.
	Durable Verdict = iota + 1
	// RefusedEpoch: the shard belongs to another epoch; nothing was written.
	RefusedEpoch
	// RefusedSeq: the sequence number is not the next one; nothing was written.
	RefusedSeq
	// RefusedCommand: a command of the unit is stored already, or its key is
	// older than what the entity remembers; nothing was written.
	RefusedCommand
	// RefusedWake: the unit reports a wake-up as fired, but that setting does not stand: the
	// wake-up was set again or removed, or has fired already. Or a send that may be delivered only
	// once is done. Nothing was written.
	RefusedWake
	// RefusedFull: the store cannot take more at the moment (disk full);
	// nothing was written.
	RefusedFull
	// RefusedTooLarge: the operation is larger than the store ever takes; nothing was
	// written, and the same operation is always refused.
	RefusedTooLarge
	// RefusedDamaged: the stored data of the entity, or of the shard's fence, is
	// damaged; nothing was written.
	RefusedDamaged
	// UnknownOutcome: the connection was lost at commit; it may or may not
	// have happened, or may still happen later.
	UnknownOutcome
)

// Answered reports whether the verdict proves that the journal answered: a refusal
// does, unless this process may have made it itself: RefusedFull, if its own queue was
// full, and RefusedTooLarge.
func (v Verdict) Answered() bool {
	return v != UnknownOutcome && v != RefusedFull && v != RefusedTooLarge
}

// String describes the verdict in words.
func (v Verdict) String() string {
	switch v {
	case Durable:
		return "durable"
	case RefusedEpoch:
		return "refused by epoch"
	case RefusedSeq:
		return "refused by sequence"
	case RefusedCommand:
		return "refused by command id"
	case RefusedWake:
		return "refused by wake-up"
	case RefusedFull:
		return "refused, store full"
	case RefusedTooLarge:
		return "refused, too large"
	case RefusedDamaged:
		return "refused, damaged"
	case UnknownOutcome:
		return "unknown"
	}
	return "invalid"
}

// Fence is the stored epoch of a shard and who claimed it.
type Fence struct {
	Epoch Epoch
	Owner NodeUID
}

// Stored is the journal's entry for a command.
type Stored struct {
	Hash  Hash
	Reply Reply
	// Expired is true if the key is older than the keys that the entity remembers: whether the
	// command ran is not known any more. Reply is empty.
	Expired bool
}
