package journal

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Head is the stored state against which appends and snapshots of an entity are
// checked.
type Head struct {
	LastSeq     uint64 // 0: no record is stored
	SnapshotSeq uint64 // 0: no snapshot is stored
	// Life is the sequence number of the newest record that deletes the entity; 0: none does.
	Life uint64
	// Cut: events of the records up to this one may be gone.
	Cut uint64
	// Dropped is the newest time of a key whose dedupe entry was dropped; the
	// zero time if there is none.
	Dropped time.Time
	// Duplicate is true if a command of the given records is already stored.
	Duplicate bool
}

// Tx is a backend inside its transaction. Reads must see earlier writes of the same
// transaction.
type Tx interface {
	// Fence reads the fence of a shard; the zero Fence if it was never claimed.
	Fence(shard sharding.ShardID) (sharding.Fence, error)
	// Head reads the head of an entity, and whether a command of the records
	// (which may be none) is stored.
	Head(entity sharding.Entity, records []sharding.Record) (Head, error)
	// Wake reads which setting of a wake-up stands, if there is any: the Seq and Number of its
	// entry.
	Wake(entity sharding.Entity, kind sharding.WakeKind, name string) (ref sharding.WakeRef, found bool, err error)
	// Sends reads the states of the sends of a record, nil if all are done, or there are none.
	Sends(entity sharding.Entity, seq uint64) (SendStates, error)
	// NewestExpired reads the newest time of a key that an entity of the shard had which was
	// purged; the zero time if there is none.
	NewestExpired(shard sharding.ShardID) (time.Time, error)
	// Write performs an operation that was accepted; never a fence read.
	Write(op *Op) error
}

// Decide runs a batch inside a transaction, by the same rules for every backend.
// Each operation is checked before any of its writes, so that a refusal does not
// affect the others. An error comes from tx; the transaction must then be rolled
// back.
//
// Appends that only say which sends have ended come before all others: their entities may
// have another append in the batch. Of the others, an entity has at most one in a batch.
func Decide(ops []Op, tx Tx) ([]Result, error) {
	results := make([]Result, len(ops))
	deliver := false
	for i := range ops {
		if a := ops[i].Append; a == nil || !a.OnlyDelivers() { //mutant:true deliver-apart
			continue
		}
		deliver = true
		r, err := decideAppend(ops[i].Append, tx)
		if err == nil && r.Verdict == sharding.Durable {
			err = tx.Write(&ops[i])
		}
		if err != nil {
			return nil, err
		}
		results[i] = r
	}
	var written map[sharding.Entity]writes
	if len(ops) > 1 {
		written = make(map[sharding.Entity]writes, len(ops))
	}
	for i := range ops {
		op := &ops[i]
		if deliver && op.Append != nil && op.Append.OnlyDelivers() {
			continue
		}
		r, err := decide(op, tx, written)
		if err != nil {
			return nil, err
		}
		results[i] = r
		if r.Verdict != sharding.Durable || op.Fence != nil {
			continue
		}
		if err := tx.Write(op); err != nil {
			return nil, err
		}
		switch {
		case written == nil:
		case op.Append != nil:
			written[op.Append.Entity] |= wasAppended
		case op.Purge != nil:
			written[op.Purge.Entity] |= wasPurged
		}
	}
	return results, nil
}

// writes say what a batch has done to an entity so far. At most one append of an entity may be
// in a batch; and nothing else about an entity that it purges may follow, or precede as an
// append: a backend may remove first, or last.
type writes uint8

const (
	wasAppended writes = 1 << iota
	wasPurged
)

func decide(op *Op, tx Tx, written map[sharding.Entity]writes) (Result, error) {
	switch {
	case op.Claim != nil:
		return decideClaim(op.Claim, tx)
	case op.Fence != nil:
		f, err := tx.Fence(op.Fence.Shard)
		return checkEpoch(f, op.Fence.Epoch), err
	case op.Append != nil:
		if written[op.Append.Entity] != 0 {
			return Result{Verdict: sharding.RefusedSeq}, nil
		}
		return decideAppend(op.Append, tx)
	case op.Snapshot != nil:
		if written[op.Snapshot.Entity]&wasPurged != 0 {
			return Result{Verdict: sharding.RefusedSeq}, nil
		}
		return decideSnapshot(op.Snapshot, tx)
	case op.Drop != nil:
		if written[op.Drop.Entity]&wasPurged != 0 {
			return Result{Verdict: sharding.RefusedSeq}, nil
		}
		return decideDrop(op.Drop, tx)
	case op.Purge != nil:
		if written[op.Purge.Entity] != 0 {
			return Result{Verdict: sharding.RefusedWake}, nil
		}
		return decidePurge(op.Purge, tx)
	}
	return Result{Verdict: sharding.RefusedSeq}, nil
}

func decideClaim(c *sharding.Claim, tx Tx) (Result, error) {
	f, err := tx.Fence(c.Shard)
	if err != nil {
		return Result{}, err
	}
	// A repeated claim by the same node means that the reply to the first was lost.
	repeated := c.Epoch == f.Epoch && c.Owner == f.Owner && f.Epoch != 0 //mutant:false claim-repeat
	if c.Epoch <= f.Epoch && !repeated {                                 //mutant:false claim-check
		return Result{Verdict: sharding.RefusedEpoch, Fence: f}, nil
	}
	return Result{Verdict: sharding.Durable, Fence: f}, nil
}

// checkEpoch decides whether an operation at epoch e passes the fence f.
func checkEpoch(f sharding.Fence, e sharding.Epoch) Result {
	// Invariant: once an effect of an epoch is stored, no effect of a lower epoch on the same shard can follow.
	// Guarded by: `journal.Decide` checks the epoch in the transaction of each append and each snapshot.
	// `region.claim`: the owner claims the shard before the owner serves it. `region.command`: the region takes only
	// commands of exactly the owner's epoch.
	// Mutants: epoch-check, claim-check, claim-repeat, snapshot-fence, claim, admission-epoch
	if f.Epoch == 0 || f.Epoch != e { //mutant:false epoch-check
		return Result{Verdict: sharding.RefusedEpoch, Fence: f}
	}
	return Result{Verdict: sharding.Durable, Fence: f}
}

func decideAppend(a *sharding.Append, tx Tx) (Result, error) {
	f, err := tx.Fence(a.Shard)
	if err != nil {
		return Result{}, err
	}
	r := checkEpoch(f, a.Epoch)
	//mutant:do fired-fence if len(a.Records) == 0 { r.Verdict = sharding.Durable }
	if r.Verdict != sharding.Durable {
		return r, nil
	}
	if len(a.Records) > 0 {
		if v, err := decideRecords(a, tx); err != nil || v != sharding.Durable {
			return Result{Verdict: v}, err
		}
	} else if len(a.Fired)+len(a.Delivered) == 0 {
		return Result{Verdict: sharding.RefusedSeq}, nil
	}
	stand, err := allStand(a, tx)
	// Invariant: each setting of a wake-up fires once. A setting of a periodic wake-up fires once per due time. Both
	// hold even if several regions believe that they own the shard. A setting that was replaced or removed does not
	// fire.
	// Guarded by: `journal.Decide` accepts an append that reports a firing only under two conditions: the wake-up's
	// setting stands, and the append's epoch equals the fence's. If the turn of a firing has staged nothing, the append
	// has no record and only reports the firing. The same two conditions apply to it.
	// Mutants: wake-check, fired-fence, refused-wake
	if err == nil && !stand { //mutant:false wake-check
		return Result{Verdict: sharding.RefusedWake}, nil
	}
	return Result{Verdict: sharding.Durable}, err
}

// decideRecords decides about the records of an append whose epoch was accepted.
func decideRecords(a *sharding.Append, tx Tx) (sharding.Verdict, error) {
	head, err := tx.Head(a.Entity, a.Records)
	if err != nil {
		return 0, err
	}
	if head.LastSeq == 0 { //mutant:false purged-keys
		if head.Dropped, err = tx.NewestExpired(a.Shard); err != nil {
			return 0, err
		}
	}
	// Invariant: the sequence numbers of an entity are 1, 2, 3… without gaps.
	// Guarded by: `journal.Decide` checks the sequence number of each append. `turn.appendPending`: at most one unit of
	// an entity is being written at a time.
	// Mutants: seq-check, one-unit
	if !follows(head.LastSeq, a.Records) { //mutant:false seq-check
		return sharding.RefusedSeq, nil
	}
	// Invariant: a command id has at most one effect. A command id belongs to one command with one payload and one
	// principal.
	// Guarded by: `journal.Decide` looks for the id in the transaction of the append. `turn.emitLoad`: before a command
	// runs again, it is looked up in the journal. `turn.resolveStored` and `joinDuplicate` compare the hash of command,
	// payload and principal.
	// Mutants: dedupe, lookup-first, key-conflict, principal, principal-joins
	if head.Duplicate || expired(head.Dropped, a.Records) || repeats(a.Records) { //mutant:false dedupe
		return sharding.RefusedCommand, nil
	}
	return sharding.Durable, nil
}

// allStand reports whether the setting of every wake-up that has fired stands, and whether no
// send is done that may be delivered only once. A wake-up that the append names twice does not
// stand.
func allStand(a *sharding.Append, tx Tx) (bool, error) {
	var seen map[sharding.WakeRef]bool // by kind and name; an append that names one needs none
	if len(a.Fired) > 1 {
		seen = make(map[sharding.WakeRef]bool, len(a.Fired))
	}
	for i := range a.Fired {
		want := a.Fired[i].WakeRef
		if id := (sharding.WakeRef{Kind: want.Kind, Name: want.Name}); seen[id] {
			return false, nil
		} else if seen != nil {
			seen[id] = true
		}
		if have, found, err := tx.Wake(a.Entity, want.Kind, want.Name); err != nil || !found || have != want {
			return false, err
		}
	}
	for i := range a.Delivered {
		if d := &a.Delivered[i]; d.Once { //mutant:false deliver-once
			if states, err := tx.Sends(a.Entity, d.Seq); err != nil || !states.Stands(d) {
				return false, err
			}
		}
	}
	return true, nil
}

func decideSnapshot(s *WriteSnapshot, tx Tx) (Result, error) {
	f, err := tx.Fence(s.Shard)
	if err != nil {
		return Result{}, err
	}
	r := checkEpoch(f, s.Epoch)
	if r.Verdict != sharding.Durable { //mutant:false snapshot-fence
		return r, nil
	}
	head, err := tx.Head(s.Entity, nil)
	if err != nil {
		return Result{}, err
	}
	seq := s.Snapshot.Seq
	if seq == 0 || seq > head.LastSeq || seq < head.SnapshotSeq {
		return Result{Verdict: sharding.RefusedSeq}, nil
	}
	if seq <= head.Life { //mutant:false snapshot-of-the-dead
		return Result{Verdict: sharding.RefusedSeq}, nil
	}
	return Result{Verdict: sharding.Durable}, nil
}

func decideDrop(d *DropSnapshot, tx Tx) (Result, error) {
	head, err := tx.Head(d.Entity, nil)
	if err != nil {
		return Result{}, err
	}
	if head.Cut > head.Life { //mutant:false drop-trimmed
		return Result{Verdict: sharding.RefusedSeq}, nil
	}
	// Invariant: an operator can drop a snapshot (`roost journal snapshot drop`) only if the records alone give the
	// entity's state: all records that the snapshot covers can be read, and no events were trimmed.
	// Guarded by: `journal.Decide`: the drop names the last record that the program has read, and is refused if events
	// were trimmed.
	// Mutants: drop-snapshot
	if head.SnapshotSeq == 0 || head.SnapshotSeq > d.Seq { //mutant:false drop-snapshot head.SnapshotSeq > d.Seq
		return Result{Verdict: sharding.RefusedSeq}, nil
	}
	return Result{Verdict: sharding.Durable}, nil
}

func decidePurge(p *Purge, tx Tx) (Result, error) {
	f, err := tx.Fence(p.Shard)
	if err != nil {
		return Result{}, err
	}
	r := checkEpoch(f, p.Epoch)
	// Invariant: the shard's owner removes the remains of a life. It does so when the idempotency keys of the life are
	// old and the sends of the life have ended.
	// Guarded by: `journal.decidePurge`, `journal.Purging`. `purge.Purger` paces the removal.
	// Mutants: purge-fence, purge-life, purge-age, purge-looks, purge-again, purge-sends, purged-keys, purge-rate
	if r.Verdict != sharding.Durable { //mutant:false purge-fence
		return r, nil
	}
	ref, found, err := tx.Wake(p.Entity, sharding.PurgeWake, "")
	if err != nil {
		return Result{}, err
	}
	if !found || ref.Seq != p.Life { //mutant:false purge-life ref.Seq != p.Life
		return Result{Verdict: sharding.RefusedWake}, nil
	}
	return Result{Verdict: sharding.Durable}, nil
}

// follows reports whether the records continue the sequence after last.
func follows(last uint64, records []sharding.Record) bool {
	for i := range records {
		last++
		if records[i].Seq != last {
			return false
		}
	}
	return true
}

// expired reports whether a record carries a key whose dedupe entry may have been
// dropped.
func expired(dropped time.Time, records []sharding.Record) bool {
	if dropped.IsZero() {
		return false
	}
	for i := range records {
		if Expired(dropped, records[i].Command) {
			return true
		}
	}
	return false
}

// repeats reports whether a unit contains a command twice.
func repeats(records []sharding.Record) bool {
	if len(records) < 2 {
		return false
	}
	seen := make(map[sharding.CommandID]struct{}, len(records))
	for i := range records {
		c := records[i].Command
		if c == "" {
			continue
		}
		if _, again := seen[c]; again {
			return true
		}
		seen[c] = struct{}{}
	}
	return false
}
