package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Limits on the data of one entity that a repair reads and holds in memory.
const (
	// MaxRepairRecords is the largest number of records, and of other entries, of an entity that is
	// examined or repaired: a few hundred MiB of memory.
	MaxRepairRecords = 200_000
	// MaxRepairBytes is the largest size of their stored forms.
	MaxRepairBytes = 256 << 20
)

// RawRecord is a record as it is stored, whether it can be read or not.
type RawRecord struct {
	Seq   uint64
	Body  []byte
	Reply []byte // of the stored form; nil: there is none
}

// RawWake is the entry of a wake-up. Its input is in the record Seq.
type RawWake struct {
	sharding.WakeRef
	Due, Period int64 // as in [sharding.Wake]
}

// RawSends is the entry of a record whose sends are not all done.
type RawSends struct {
	Seq    uint64
	States SendStates
}

// RawEntity is all that is stored of an entity, as it is stored: nothing of it was decoded.
type RawEntity struct {
	Entity sharding.Entity
	// LastSeq, Life and SnapshotSeq are as in [Head], Cut as in [Loaded].
	LastSeq, Life, Cut, SnapshotSeq uint64
	Snapshot                        []byte      // nil: there is none
	Records                         []RawRecord // in the order of their numbers
	Wakes                           []RawWake   // in the order of kind and name
	Sends                           []RawSends  // in the order of the records
	bytes                           int
}

// Add adds a record. Its memory belongs to the entity from then on. The error wraps ErrTooLarge.
func (e *RawEntity) Add(r RawRecord) error {
	e.bytes += len(r.Body) + len(r.Reply)
	if len(e.Records) == MaxRepairRecords || e.bytes > MaxRepairBytes {
		return fmt.Errorf("%w: %s has more than %d records or %d MiB, which a repair cannot hold", ErrTooLarge, e.Entity, MaxRepairRecords, MaxRepairBytes>>20)
	}
	e.Records = append(e.Records, r)
	return nil
}

// AddWake adds the entry of a wake-up. The error wraps ErrTooLarge.
func (e *RawEntity) AddWake(w RawWake) error {
	e.Wakes = append(e.Wakes, w)
	return e.checkRows()
}

// AddSends adds the entry of a record with sends. The error wraps ErrTooLarge.
func (e *RawEntity) AddSends(s RawSends) error {
	e.Sends = append(e.Sends, s)
	return e.checkRows()
}

func (e *RawEntity) checkRows() error {
	if len(e.Wakes)+len(e.Sends) > MaxRepairRecords {
		return fmt.Errorf("%w: %s has more than %d wake-ups and records with sends, which a repair cannot hold", ErrTooLarge, e.Entity, MaxRepairRecords)
	}
	return nil
}

// record returns the stored record of a number, nil if there is none.
func (e *RawEntity) record(seq uint64) *RawRecord {
	i, found := slices.BinarySearchFunc(e.Records, seq, func(r RawRecord, seq uint64) int {
		switch {
		case r.Seq < seq:
			return -1
		case r.Seq > seq:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &e.Records[i]
}

// read decodes a stored record. A missing one is damage.
func (e *RawEntity) read(seq uint64) (Entry, error) {
	r := e.record(seq)
	if r == nil {
		return Entry{}, fmt.Errorf("%w: %s, record %d is missing", ErrCorrupt, e.Entity, seq)
	}
	return DecodeRecord(e.Entity, seq, r.Body)
}

// Finding is a defect in the stored data of an entity.
type Finding struct {
	Kind FindingKind
	// Seq is the number of the record, or of the snapshot. Of missing records it is the first one,
	// and To the last one.
	Seq, To uint64
	Name    string // of a wake-up
	Err     error  // what is wrong
	// Blocks is true if the entity cannot be loaded: all of its commands are refused.
	Blocks bool
}

// FindingKind is the kind of damage.
type FindingKind string

// The kinds of findings.
const (
	DamagedRecord   FindingKind = "record"
	MissingRecords  FindingKind = "missing records"
	StrayRecord     FindingKind = "stray record" // its number is none that the entity can have
	DamagedReply    FindingKind = "stored reply"
	DamagedSnapshot FindingKind = "snapshot"
	DamagedReminder FindingKind = "reminder"
	DamagedRemember FindingKind = "remembered start"
	DamagedSends    FindingKind = "kept sends"
)

// Examine returns the defects in the stored data of the entity, in the order of the records: those that block
// it, and others.
func (e *RawEntity) Examine() []Finding {
	base := max(e.SnapshotSeq, e.Life)
	found := e.examineRecords(base)
	if e.SnapshotSeq > 0 {
		err := fmt.Errorf("%w: %s, the snapshot at %d is missing", ErrCorrupt, e.Entity, e.SnapshotSeq)
		if e.Snapshot != nil {
			_, err = DecodeSnapshot(e.Entity, e.SnapshotSeq, e.Snapshot)
		}
		if err == nil && e.SnapshotSeq > e.LastSeq {
			err = fmt.Errorf("%w: %s, the snapshot is at %d, and the last record is %d", ErrCorrupt, e.Entity, e.SnapshotSeq, e.LastSeq)
		}
		if err != nil {
			found = append(found, Finding{Kind: DamagedSnapshot, Seq: e.SnapshotSeq, Err: err, Blocks: true})
		}
	}
	if _, err := ReplayFrom(e.Entity, e.SnapshotSeq, e.Life, e.Cut); err != nil {
		found = append(found, Finding{Kind: DamagedSnapshot, Seq: e.SnapshotSeq, Err: err, Blocks: true})
	}
	return append(found, e.examineRows()...)
}

func (e *RawEntity) examineRecords(base uint64) (found []Finding) {
	gone := max(e.Life, e.Cut) // records up to this one may have been removed
	next := uint64(1)
	for i := range e.Records {
		r := &e.Records[i]
		if r.Seq < next || r.Seq > e.LastSeq || r.Seq-next > MaxRepairRecords && r.Seq > gone+1 {
			found = append(found, Finding{Kind: StrayRecord, Seq: r.Seq, Blocks: r.Seq > base,
				Err: fmt.Errorf("%w: %s, a record has the number %d, and the last one is %d", ErrCorrupt, e.Entity, int64(r.Seq), e.LastSeq)})
			continue
		}
		found = append(found, e.missing(max(next, gone+1), r.Seq, base)...)
		next = r.Seq + 1
		if _, err := DecodeRecord(e.Entity, r.Seq, r.Body); err != nil {
			found = append(found, Finding{Kind: DamagedRecord, Seq: r.Seq, Err: err, Blocks: r.Seq > base})
		} else if _, err := DecodeReply(e.Entity, r.Seq, r.Reply); err != nil {
			found = append(found, Finding{Kind: DamagedReply, Seq: r.Seq, Err: err})
		}
	}
	if e.LastSeq-min(e.LastSeq, next-1) <= MaxRepairRecords {
		return append(found, e.missing(max(next, gone+1), e.LastSeq+1, base)...)
	}
	return append(found, Finding{Kind: MissingRecords, Seq: next, To: e.LastSeq, Blocks: true,
		Err: fmt.Errorf("%w: %s, the last record is said to be %d, and none from %d on is stored", ErrCorrupt, e.Entity, int64(e.LastSeq), next)})
}

// missing is the finding that the records from the first one on are missing, up to the one before the
// second.
func (e *RawEntity) missing(first, end, base uint64) []Finding {
	if first >= end {
		return nil
	}
	what := fmt.Sprintf("record %d is missing", first)
	if end-first > 1 {
		what = fmt.Sprintf("records %d to %d are missing", first, end-1)
	}
	return []Finding{{Kind: MissingRecords, Seq: first, To: end - 1, Blocks: end-1 > base, Err: fmt.Errorf("%w: %s, %s", ErrCorrupt, e.Entity, what)}}
}

func (e *RawEntity) examineRows() (found []Finding) {
	for i := range e.Wakes {
		if f := e.examineWake(&e.Wakes[i]); f.Err != nil {
			found = append(found, f)
		}
	}
	for i := range e.Sends {
		if err := e.examineSends(&e.Sends[i]); err != nil {
			found = append(found, Finding{Kind: DamagedSends, Seq: e.Sends[i].Seq, Err: err})
		}
	}
	return found
}

func (e *RawEntity) examineWake(w *RawWake) Finding {
	f := Finding{Kind: DamagedReminder, Seq: w.Seq, Name: w.Name}
	switch w.Kind {
	case sharding.PurgeWake: // no record sets it
		return f
	case sharding.RememberWake:
		f.Kind = DamagedRemember
	}
	entry, err := e.read(w.Seq)
	if err == nil {
		row := WakeEntry{Entity: e.Entity, WakeRef: w.WakeRef}
		row.SetInput(&entry.Record)
		err = row.Err
	}
	f.Err = err
	return f
}

func (e *RawEntity) examineSends(s *RawSends) error {
	entry, err := e.read(s.Seq)
	if err == nil {
		row := SendEntry{Entity: e.Entity, Seq: s.Seq, States: s.States}
		row.SetSends(entry.At, &entry.Record)
		err = row.Err
	}
	return err
}

// digest hashes the data to be set aside or deleted, so it changes whenever that data does.
func (p *RepairPlan) digest() [sha256.Size]byte {
	h := sha256.New()
	part := func(n uint64, parts ...[]byte) {
		b := binary.BigEndian.AppendUint64(nil, n)
		for _, x := range parts {
			b = append(appendBytes(b, x), 0)
		}
		h.Write(b)
	}
	part(uint64(len(p.SetAside)))
	for _, r := range p.SetAside {
		part(r.Seq, r.Body, r.Reply)
	}
	part(uint64(len(p.Wakes)))
	for _, w := range p.Wakes {
		part(w.Seq, []byte{byte(w.Kind)}, []byte(w.Name))
	}
	part(uint64(len(p.Sends)))
	for _, s := range p.Sends {
		part(s.Seq, s.States)
	}
	part(p.SnapshotSeq, p.Snapshot)
	part(p.Deletes)
	return [sha256.Size]byte(h.Sum(nil))
}
