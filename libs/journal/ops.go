package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Errors that callers distinguish. A backend's Commit wraps ErrNotCommitted, ErrFull, ErrBroken
// or ErrCorrupt if it knows the outcome of the batch; any other error means that the outcome is
// unknown.
var (
	// ErrConfig: a Config or a URL makes no sense.
	ErrConfig = errors.New("bad journal config")
	// ErrNotCommitted: nothing of the batch was written, and it may be tried
	// again at once.
	ErrNotCommitted = errors.New("not committed")
	// ErrContended comes with ErrNotCommitted: a transaction of another process was in the way.
	ErrContended = errors.New("another transaction was in the way")
	// ErrFull: nothing of the batch was written because the store has no room.
	ErrFull = errors.New("store is full")
	// ErrTooLarge: the operation exceeds Config.OpBytes; it will never be stored.
	ErrTooLarge = errors.New("too large")
	// ErrBroken: the store failed in a way that makes it unsafe to go on (a
	// failed fsync, an I/O error at commit). The process must stop.
	ErrBroken = errors.New("store is broken, this process must stop")
	// ErrCorrupt: stored data does not match its checksum, or cannot be read. From a
	// load, it concerns the entity. From a commit, it concerns data that some
	// operation of the batch needs, and nothing was written: the other operations may
	// be committed without that one.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrIdentity: the store belongs to another cluster, or has a format that
	// this version does not know.
	ErrIdentity = errors.New("not the journal of this cluster")
	// ErrReplaced: the generation of the store is not the one that it had when it was opened. It
	// comes with ErrBroken.
	ErrReplaced = errors.New("the journal was restored or replaced")
	// ErrShardCount: a type is declared with another number of shards than it
	// has.
	ErrShardCount = errors.New("another number of shards")
	// ErrUnreachable: the store does not answer, or not yet. It may be tried
	// again.
	ErrUnreachable = errors.New("store does not answer")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal is closed")
)

// Snapshot is the state of an entity after the record Seq.
type Snapshot struct {
	Seq      uint64 // 0: there is none
	Encoding sharding.Encoding
	// Form is stored and not interpreted.
	Form    sharding.SnapshotForm
	Payload []byte
}

// WriteSnapshot stores a snapshot. It is refused by epoch unless Epoch is the
// stored epoch of the shard, and by sequence unless the record Snapshot.Seq is
// stored and no newer snapshot is.
type WriteSnapshot struct {
	Shard    sharding.ShardID
	Epoch    sharding.Epoch
	Entity   sharding.Entity
	Snapshot Snapshot
	// Cut is the sequence number of a record, at most the snapshot's. The events up to and
	// including that record are no longer needed, and the journal removes them, a bounded number
	// with each snapshot: see [TrimMarks]. The rest of these records stays as long as it is
	// needed. 0: nothing is removed.
	Cut uint64
}

// DropSnapshot removes the snapshot of an entity, so that the next load rebuilds the entity from its
// records. It is refused by sequence number in three cases: no snapshot is stored, the snapshot's
// sequence number is above Seq, or events of this life were trimmed ([WriteSnapshot.Cut]). It needs no
// claim: the records stay, and a snapshot only repeats them, so the shard's owner may make it again at
// any time.
type DropSnapshot struct {
	Shard  sharding.ShardID
	Entity sharding.Entity
	// Seq is the sequence number of the last record of the entity that was read by the program that
	// drops the snapshot.
	Seq uint64
}

// Purge removes the rest of an ended life of an entity, as far as its keys are old enough to be
// expired, and the entity itself if it has no newer record. It is refused by epoch unless
// Epoch is the stored epoch of the shard, and by wake-up unless the entry of kind
// [sharding.PurgeWake] stands for that life. It removes MaxPurge records at most. If records
// remain, their entry becomes due again.
type Purge struct {
	Shard  sharding.ShardID
	Epoch  sharding.Epoch
	Entity sharding.Entity
	Life   uint64 // the sequence number of the record that has ended it
}

// MaxPurge is the largest number of records that one Purge removes: what does not let the
// other operations of its batch wait.
const MaxPurge = 1000

// Op is one operation: exactly one field is set. What it points to must not be
// changed until the result is known.
type Op struct {
	Claim    *sharding.Claim
	Append   *sharding.Append
	Fence    *sharding.ReadFence
	Snapshot *WriteSnapshot
	Drop     *DropSnapshot
	Purge    *Purge
}

// Kind is "claim", "append", "fence", "snapshot", "drop" or "purge".
func (o *Op) Kind() string {
	switch {
	case o.Claim != nil:
		return "claim"
	case o.Append != nil:
		return "append"
	case o.Fence != nil:
		return "fence"
	case o.Snapshot != nil:
		return "snapshot"
	case o.Drop != nil:
		return "drop"
	case o.Purge != nil:
		return "purge"
	}
	return "none"
}

// Size is the operation's size as limits in bytes count it.
func (o *Op) Size() int {
	n := 64
	switch {
	case o.Append != nil:
		n += len(o.Append.Entity.ID)
		for i := range o.Append.Records {
			n += o.Append.Records[i].Size()
		}
		for i := range o.Append.Fired {
			n += 32 + len(o.Append.Fired[i].Name)
		}
		for i := range o.Append.Delivered {
			n += 16 + 2*len(o.Append.Delivered[i].Sends)
		}
	case o.Snapshot != nil:
		n += len(o.Snapshot.Entity.ID) + len(o.Snapshot.Snapshot.Payload)
	case o.Drop != nil:
		n += len(o.Drop.Entity.ID)
	case o.Purge != nil:
		n += len(o.Purge.Entity.ID)
	}
	return n
}

// Type is the entity type that the operation is about.
func (o *Op) Type() sharding.EntityType { return o.Shard().Type }

// Shard returns the shard that the operation is about.
func (o *Op) Shard() sharding.ShardID {
	switch {
	case o.Claim != nil:
		return o.Claim.Shard
	case o.Append != nil:
		return o.Append.Shard
	case o.Fence != nil:
		return o.Fence.Shard
	case o.Snapshot != nil:
		return o.Snapshot.Shard
	case o.Drop != nil:
		return o.Drop.Shard
	case o.Purge != nil:
		return o.Purge.Shard
	}
	return sharding.ShardID{}
}

// Check returns an error for an operation that is malformed.
func (o *Op) Check() error {
	var set int
	for _, is := range [...]bool{o.Claim != nil, o.Append != nil, o.Fence != nil, o.Snapshot != nil, o.Drop != nil, o.Purge != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("an operation must be exactly one of claim, append, fence, snapshot, drop and purge, this one is %d of them", set)
	case o.Append != nil && len(o.Append.Records)+len(o.Append.Fired)+len(o.Append.Delivered) == 0:
		return fmt.Errorf("append to %s holds no record, nothing that has fired and nothing that was delivered", o.Append.Entity)
	case o.Append != nil && o.Append.Shard.Type != o.Append.Entity.Type:
		return fmt.Errorf("append to %s names shard %s", o.Append.Entity, o.Append.Shard)
	case o.Append != nil && slices.ContainsFunc(o.Append.Records, denseRecord):
		return fmt.Errorf("a record of %s has more than %d events that are shorter than %d bytes on average: give them longer names, or put more into each",
			o.Append.Entity, maxTinyEvents, minEventBytes)
	case o.Append != nil:
		return checkWakes(o.Append)
	case o.Snapshot != nil && o.Snapshot.Shard.Type != o.Snapshot.Entity.Type:
		return fmt.Errorf("snapshot of %s names shard %s", o.Snapshot.Entity, o.Snapshot.Shard)
	case o.Snapshot != nil && o.Snapshot.Cut > o.Snapshot.Snapshot.Seq:
		return fmt.Errorf("snapshot of %s at %d lets events up to record %d go, which are not in it", o.Snapshot.Entity, o.Snapshot.Snapshot.Seq, o.Snapshot.Cut)
	case o.Purge != nil && o.Purge.Shard.Type != o.Purge.Entity.Type:
		return fmt.Errorf("purge of %s names shard %s", o.Purge.Entity, o.Purge.Shard)
	case o.Drop != nil && o.Drop.Shard.Type != o.Drop.Entity.Type:
		return fmt.Errorf("drop of the snapshot of %s names shard %s", o.Drop.Entity, o.Drop.Shard)
	case o.Drop != nil && sharding.CheckEntityType("type", o.Drop.Entity.Type) != nil:
		return fmt.Errorf("the snapshot of %s is Roost's own, and has data that no record has", o.Drop.Entity)
	}
	return nil
}

// Result is the result of one operation.
type Result struct {
	Verdict sharding.Verdict
	// Fence is the fence before the operation; it is set by a claim, a fence read or a refusal
	// by epoch. So a new owner learns which claim its own claim has replaced.
	Fence sharding.Fence
	// Err is the reason in words, with RefusedFull, RefusedDamaged and
	// UnknownOutcome.
	Err error
	// At is the time at which the records of an append were stored, as in [SendEntry.At] later.
	At time.Time
}

// LoadRequest asks for everything that is needed to activate an entity.
type LoadRequest struct {
	Entity sharding.Entity
	// Shard is the shard of the entity. With it, old keys of an entity that was purged are
	// known to have expired; without it, they are absent.
	Shard sharding.ShardID
	// Lookup are the commands to look up: have they been stored?
	Lookup []sharding.CommandID
	// LookupOnly leaves the snapshot and the records out.
	LookupOnly bool
	// WithoutSnapshot asks for all records of this life instead of the snapshot and those
	// after it. The error wraps ErrTrimmed if events of them were trimmed.
	WithoutSnapshot bool
	// Wakes asks which wake-ups the entity has: Loaded.Remembered and Loaded.Reminders.
	Wakes bool
	// Background is true if no command waits for the entity. Such loads take at most half of
	// Config.Loads, or one, so that the others need not wait for them.
	Background bool
}

// ListRequest asks for one page of the stored entities.
type ListRequest struct {
	// Type, if it is set, is the only type that is listed.
	Type sharding.EntityType
	// After is the last entity of the page before; the zero value asks for the first page.
	After sharding.Entity
	// Limit is the largest number of entities in the page, above 0. A page with fewer is
	// the last one.
	Limit int
}

// Start returns the entity after which the page begins.
func (r ListRequest) Start() sharding.Entity {
	if first := (sharding.Entity{Type: r.Type}); first.Compare(r.After) > 0 {
		return first
	}
	return r.After
}

// Loaded is an entity as it was at one moment after the load was asked for.
type Loaded struct {
	// LastSeq is the sequence number of the last record; 0: there is none.
	LastSeq uint64
	// Life is the number of the entity's life: the sequence number of the record that deleted
	// it last; 0: none did.
	Life     uint64
	Snapshot Snapshot
	// Cut: the events of this life's records up to this one may be gone. 0: none are. It is
	// never above the snapshot's sequence number.
	Cut uint64
	// Records are those after the snapshot, in order and without gaps, those
	// without events included. Without a snapshot they are all records of this life. They
	// come without their replies: see Stored.
	Records []sharding.Record
	// Stored holds the looked-up commands that are stored, with their replies, or
	// expired; the others are absent.
	Stored map[sharding.CommandID]sharding.Stored
	// Pending is the number of pending sends of all records. With LookupOnly it is not set.
	Pending int
	// Remembered is the time at which the entity was last active, in Unix milliseconds, taken
	// from its wake-up of the kind sharding.RememberWake; 0: it has none, or the request did
	// not ask for it.
	Remembered int64
	// Reminders is the number of the entity's wake-ups of the kind sharding.ReminderWake; 0 if the
	// request did not ask for it.
	Reminders int
}

// StoredAt notes in the results of a batch when the records of its appends were stored.
func StoredAt(results []Result, ops []Op, wall time.Time) {
	for i := range results {
		if a := ops[i].Append; a != nil && len(a.Records) > 0 && results[i].Verdict == sharding.Durable {
			results[i].At = time.UnixMilli(wall.UnixMilli()).UTC()
		}
	}
}

// Fresh reports whether nothing was stored in this life of the entity, see
// [sharding.Record.Content].
func (l *Loaded) Fresh() bool {
	return l.Snapshot.Seq == 0 && !slices.ContainsFunc(l.Records, func(r sharding.Record) bool { return r.Content() })
}

// RememberName is the name of the one wake-up of the kind sharding.RememberWake that an entity
// may have.
const RememberName = ""

// Declaration holds the expectations of a process about the journal.
type Declaration struct {
	// Cluster is the cluster's name. The first declaration sets it. Empty
	// asks for the facts without declaring anything.
	Cluster string
	// Types are declared: their numbers of shards are set by the first
	// declaration. Only Type, Shards and Rule are looked at.
	Types []sharding.TypeDesc
}

// Facts describe the journal: whose it is, its format and its types.
type Facts struct {
	Cluster string // empty: nothing was declared yet
	// Format is the format that the schema was expanded to. MinReader and MinWriter are the
	// lowest formats that a program must know to read, and to write. See [Facts.Check].
	Format, MinReader, MinWriter int
	// Generation is drawn when the journal is created.
	Generation sharding.Generation
	Types      []TypeFact // sorted by type
	// MaxEpoch is the highest epoch of all fences. It is set in the answer to an empty
	// declaration only, so that a process can declare types although a fence is
	// damaged.
	MaxEpoch sharding.Epoch
}

// TypeFact is the number of shards of a type.
type TypeFact struct {
	Type   sharding.EntityType
	Shards uint32
}
