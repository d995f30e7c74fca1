package journal

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A repair changes the stored data of one entity, as an operator has decided. It never removes or renumbers a record.
// To set a record aside is to replace it by a record of the same number without events. So a reference to a record by
// its number never refers to another one later. The originals are in a file, which the operator has before anything is
// changed.
//
// A repair claims the shard at the next epoch, as a new owner does. From then on, the region that has the shard can
// neither write nor answer. It gives the shard up, and with it the instance of the entity in its memory. The claim, the
// audit line and the change are one transaction.

// ErrRepair: a repair is refused, and nothing was changed. The error names the reason and the remedy.
var ErrRepair = errors.New("the repair is refused")

// RepairOwner is the owner of a shard between a repair of one of its entities and the next claim by a region. No process
// has this UID.
const RepairOwner = sharding.NodeUID(math.MaxUint64)

// RepairKind is the kind of a repair.
type RepairKind string

const (
	// GoBack returns to the state after record Seq. It sets all later records aside, and drops a later snapshot.
	GoBack RepairKind = "go back"
	// SkipRecord sets only record Seq aside.
	SkipRecord RepairKind = "skip"
	// LoseReply replaces the damaged reply of record Seq by one that reports that the reply is
	// lost.
	LoseReply RepairKind = "lose reply"
	// DropRows removes the wake-ups and kept sends whose records cannot be read.
	DropRows RepairKind = "drop rows"
	// DropReminder removes the reminder Name.
	DropReminder RepairKind = "drop reminder"
	// RebuildState drops the snapshot, so that the state is rebuilt from the events.
	RebuildState RepairKind = "drop snapshot"
	// DeleteEntity sets the damaged records aside and deletes the entity.
	DeleteEntity RepairKind = "delete"
)

// ErrChanged: the stored data of an entity gives another plan than the one that the operator has
// seen.
var ErrChanged = errors.New("has changed")

// Repair is an operator's decision about an entity.
type Repair struct {
	Entity sharding.Entity
	Shard  sharding.ShardID // the entity's shard
	Do     RepairKind
	Seq    uint64 // of GoBack, SkipRecord and LoseReply
	Name   string // of DropReminder
	// Intact allows SkipRecord to set aside a record that matches its checksum, for example because the code of its type
	// cannot read its events.
	Intact bool
	// By and Reason are for the audit line. File is the name of the file that has what is set aside, and SHA256 its hash
	// in hexadecimal. Both are empty if nothing is set aside.
	By, Reason, File, SHA256 string
	// Expect is the digest of the plan that the operator has seen ([RepairPlan.Digest]). The repair is refused if the
	// data stored by now gives another plan.
	Expect string
}

// RepairPlan lists the changes of a repair.
type RepairPlan struct {
	Before, After []Finding // what is damaged before the repair, and what still is after it
	// SetAside are the records that are set aside, as they were stored. Wakes and Sends are the entries that are removed.
	SetAside []RawRecord
	Wakes    []RawWake
	Sends    []RawSends
	// SnapshotSeq is the number of the snapshot that is dropped; 0: none is. Snapshot is its stored form.
	SnapshotSeq uint64
	Snapshot    []byte
	// Digest is a hash of all of the above, in hexadecimal.
	Digest string

	// Put are the records that are written. They replace records, or fill the places of missing ones.
	Put []RawRecord
	// Expire are the records whose keys expire, because they cannot be read. Dropped is the latest time that such a
	// key can have; the zero time if there are none.
	Expire  []uint64
	Dropped time.Time
	// Deletes is the number of the record that deletes the entity; 0: it is not deleted.
	Deletes uint64
}

// PlanRepair returns the changes of a repair to the stored data of an entity. Errors wrap
// ErrRepair.
func PlanRepair(e *RawEntity, r *Repair, now time.Time) (RepairPlan, error) {
	p := RepairPlan{Before: e.Examine()}
	if len(e.Records) == 0 && len(e.Wakes) == 0 && e.SnapshotSeq == 0 {
		return p, fmt.Errorf("%w: nothing is stored of %s", ErrRepair, e.Entity)
	}
	if stray := strays(p.Before); stray != nil && r.Do != DropReminder {
		return p, fmt.Errorf("%w: numbers of records are damaged (%w), and no repair knows which record is which: restore a backup (docs/running/backup.md)", ErrRepair, stray)
	}
	var err error
	switch r.Do {
	case GoBack:
		err = p.goBack(e, r, now)
	case SkipRecord:
		err = p.skip(e, r, now)
	case LoseReply:
		err = p.loseReply(e, r)
	case DropRows:
		err = p.dropRows(e)
	case DropReminder:
		err = p.dropReminder(e, r)
	case RebuildState:
		err = p.rebuild(e)
	case DeleteEntity:
		err = p.deleteEntity(e, now)
	default:
		err = fmt.Errorf("%w: there is no repair %q", ErrRepair, r.Do)
	}
	if err != nil {
		return p, err
	}
	slices.SortFunc(p.Put, func(a, b RawRecord) int { return int(min(max(int64(a.Seq)-int64(b.Seq), -1), 1)) })
	after := e.with(&p)
	p.After = after.Examine()
	if err := p.noWorse(e); err != nil { //mutant:false repair-worse
		return p, err
	}
	d := p.digest()
	p.Digest = fmt.Sprintf("%x", d[:])
	return p, nil
}

// strays returns the error of the first finding about a number that no record can have; nil: there is none.
func strays(found []Finding) error {
	for i := range found {
		if f := &found[i]; f.Kind == StrayRecord || f.Kind == MissingRecords && f.To-f.Seq >= MaxRepairRecords {
			return f.Err
		}
	}
	return nil
}

// noWorse refuses a repair after which the entity could not be loaded because of something that was not damaged before.
func (p *RepairPlan) noWorse(e *RawEntity) error {
	for i := range p.After {
		f := &p.After[i]
		if f.Blocks && !slices.ContainsFunc(p.Before, func(b Finding) bool { return b.Blocks && b.Kind == f.Kind && b.Seq <= f.Seq && f.To <= max(b.To, f.To) }) {
			if errors.Is(f.Err, ErrTrimmed) {
				return fmt.Errorf("%w: %w; restore a backup (docs/running/backup.md), or delete the entity: roost journal repair record %s --delete", ErrRepair, f.Err, e.Entity)
			}
			return fmt.Errorf("%w: the entity could not be loaded afterwards: %w; roost journal repair record %s lists what is damaged", ErrRepair, f.Err, e.Entity)
		}
	}
	return nil
}

func (p *RepairPlan) goBack(e *RawEntity, r *Repair, now time.Time) error {
	switch {
	case r.Seq >= e.LastSeq:
		return fmt.Errorf("%w: the last record of %s is %d: nothing is behind record %d", ErrRepair, e.Entity, e.LastSeq, r.Seq)
	case r.Seq < e.Life: //mutant:false repair-life
		return fmt.Errorf("%w: %s was deleted by record %d, and what was before is another life: go back to %d at most", ErrRepair, e.Entity, e.Life, e.Life)
	}
	for seq := r.Seq + 1; seq <= e.LastSeq; seq++ {
		p.setAside(e, seq, now)
	}
	if e.SnapshotSeq > r.Seq {
		p.dropSnapshot(e)
	}
	return p.wholeUpTo(e, r.Seq)
}

// wholeUpTo refuses to go back to a record if there is no state after it.
func (p *RepairPlan) wholeUpTo(e *RawEntity, seq uint64) error {
	base := e.Life
	if p.SnapshotSeq == 0 {
		base = max(base, e.SnapshotSeq)
	}
	if base < e.Cut {
		return nil // noWorse says so
	}
	for i := range p.Before {
		//mutant:false repair-whole
		if f := &p.Before[i]; (f.Kind == DamagedRecord || f.Kind == MissingRecords) && max(f.Seq, f.To) > base && f.Seq <= seq {
			return fmt.Errorf("%w: %w: there is no state after record %d; go back further: roost journal repair record %s --back-to %d", ErrRepair, f.Err, seq, e.Entity, f.Seq-1)
		}
	}
	return nil
}

func (p *RepairPlan) skip(e *RawEntity, r *Repair, now time.Time) error {
	if r.Seq == 0 || r.Seq > e.LastSeq {
		return fmt.Errorf("%w: %s has no record %d; the last one is %d", ErrRepair, e.Entity, r.Seq, e.LastSeq)
	}
	_, err := e.read(r.Seq)
	if err == nil && !r.Intact {
		return fmt.Errorf("%w: record %d of %s is intact; to set it aside all the same, for example because the code cannot read its events, add --intact", ErrRepair, r.Seq, e.Entity)
	}
	if e.record(r.Seq) == nil && r.Seq <= max(e.Life, e.Cut) {
		return fmt.Errorf("%w: record %d of %s was removed, because it is not needed any more", ErrRepair, r.Seq, e.Entity)
	}
	p.setAside(e, r.Seq, now)
	if err == nil && r.Seq <= e.SnapshotSeq && r.Seq > e.Life {
		p.dropSnapshot(e) // its state includes the effect of the record
	}
	return nil
}

// setAside replaces a record by one without events. The wake-ups that the record has set, and its kept sends, are
// removed.
func (p *RepairPlan) setAside(e *RawEntity, seq uint64, now time.Time) {
	if was := e.record(seq); was != nil {
		p.SetAside = append(p.SetAside, *was)
	}
	blank := sharding.Record{Seq: seq}
	entry, err := e.read(seq)
	if err == nil {
		blank.Command, blank.Hash, blank.Delete = entry.Record.Command, entry.Record.Hash, entry.Record.Delete
		if blank.Command != "" { //mutant:false repair-reply
			blank.Reply = sharding.Reject(sharding.Aborted, "it was applied, and an operator has set its effect aside by a repair since; send it with a new idempotency key if it is still wanted")
		}
	} else {
		entry = e.before(seq)
		blank.Delete = seq == e.Life
		p.Expire = append(p.Expire, seq)
		p.Dropped = now //mutant:skip repair-forget
	}
	p.Put = append(p.Put, RawRecord{
		Seq: seq, Body: AppendRecord(nil, e.Entity, entry.Epoch, entry.At, &blank), Reply: AppendReply(nil, e.Entity, &blank),
	})
	p.dropRowsOf(e, seq)
}

// dropRowsOf removes the wake-ups that a record has set, and its kept sends.
func (p *RepairPlan) dropRowsOf(e *RawEntity, seq uint64) {
	//mutant:do repair-rows return
	for _, w := range e.Wakes {
		if w.Seq == seq && w.Kind != sharding.PurgeWake {
			p.Wakes = append(p.Wakes, w)
		}
	}
	for _, s := range e.Sends {
		if s.Seq == seq {
			p.Sends = append(p.Sends, s)
		}
	}
}

// before returns the newest readable record before a number. Its epoch and time are used for a record that cannot be
// read.
func (e *RawEntity) before(seq uint64) Entry {
	for i := range slices.Backward(e.Records) {
		if r := &e.Records[i]; r.Seq < seq {
			if entry, err := DecodeRecord(e.Entity, r.Seq, r.Body); err == nil {
				return entry
			}
		}
	}
	return Entry{At: time.UnixMilli(0)}
}

func (p *RepairPlan) dropSnapshot(e *RawEntity) {
	p.SnapshotSeq, p.Snapshot = e.SnapshotSeq, e.Snapshot
}

func (p *RepairPlan) loseReply(e *RawEntity, r *Repair) error {
	was := e.record(r.Seq)
	entry, err := e.read(r.Seq)
	if err != nil {
		return fmt.Errorf("%w: %w; that record itself must be repaired: roost journal repair record %s", ErrRepair, err, e.Entity)
	}
	if _, err := DecodeReply(e.Entity, r.Seq, was.Reply); err == nil {
		return fmt.Errorf("%w: the reply of record %d of %s is intact", ErrRepair, r.Seq, e.Entity)
	}
	entry.Record.Reply = sharding.Doubt(sharding.DataLoss, "it was applied; the reply that was stored of it is lost")
	p.SetAside = []RawRecord{*was}
	p.Put = []RawRecord{{Seq: r.Seq, Body: was.Body, Reply: AppendReply(nil, e.Entity, &entry.Record)}}
	return nil
}

func (p *RepairPlan) dropRows(e *RawEntity) error {
	for i := range e.Wakes {
		if e.examineWake(&e.Wakes[i]).Err != nil {
			p.Wakes = append(p.Wakes, e.Wakes[i])
		}
	}
	for i := range e.Sends {
		if e.examineSends(&e.Sends[i]) != nil {
			p.Sends = append(p.Sends, e.Sends[i])
		}
	}
	if len(p.Wakes)+len(p.Sends) == 0 {
		return fmt.Errorf("%w: every reminder and kept send of %s has its record", ErrRepair, e.Entity)
	}
	return nil
}

func (p *RepairPlan) dropReminder(e *RawEntity, r *Repair) error {
	for _, w := range e.Wakes {
		if w.Kind == sharding.ReminderWake && w.Name == r.Name {
			p.Wakes = []RawWake{w}
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no reminder %q", ErrRepair, e.Entity, r.Name)
}

func (p *RepairPlan) rebuild(e *RawEntity) error {
	if e.SnapshotSeq == 0 {
		return fmt.Errorf("%w: %s has no snapshot: its state is made from its events already", ErrRepair, e.Entity)
	}
	p.dropSnapshot(e)
	return nil
}

// deleteEntity ends the life of the entity. It sets all damaged records aside, so that the life can be purged later.
func (p *RepairPlan) deleteEntity(e *RawEntity, now time.Time) error {
	if e.LastSeq == e.Life {
		return fmt.Errorf("%w: %s was deleted before", ErrRepair, e.Entity)
	}
	for i := range p.Before {
		switch f := &p.Before[i]; f.Kind {
		case DamagedRecord, MissingRecords:
			for seq := f.Seq; seq <= max(f.Seq, f.To); seq++ {
				p.setAside(e, seq, now)
			}
		case DamagedReply:
			if err := p.loseReplyToo(e, f.Seq); err != nil {
				return err
			}
		case DamagedSends:
			i := slices.IndexFunc(e.Sends, func(s RawSends) bool { return s.Seq == f.Seq })
			if !slices.ContainsFunc(p.Sends, func(s RawSends) bool { return s.Seq == f.Seq }) {
				p.Sends = append(p.Sends, e.Sends[i])
			}
		}
	}
	if e.SnapshotSeq > 0 {
		p.dropSnapshot(e)
	}
	p.Deletes = e.LastSeq + 1
	return nil
}

func (p *RepairPlan) loseReplyToo(e *RawEntity, seq uint64) error {
	var one RepairPlan
	if err := one.loseReply(e, &Repair{Seq: seq}); err != nil {
		return err
	}
	p.SetAside, p.Put = append(p.SetAside, one.SetAside...), append(p.Put, one.Put...)
	return nil
}

// with returns the entity as it is stored after the repair.
func (e *RawEntity) with(p *RepairPlan) *RawEntity {
	x := *e
	x.Records = nil
	put := p.Put
	for _, r := range e.Records {
		for len(put) > 0 && put[0].Seq < r.Seq {
			x.Records, put = append(x.Records, put[0]), put[1:]
		}
		if len(put) > 0 && put[0].Seq == r.Seq {
			r, put = put[0], put[1:]
		}
		x.Records = append(x.Records, r)
	}
	x.Records = append(x.Records, put...)
	x.Wakes = slices.DeleteFunc(slices.Clone(e.Wakes), func(w RawWake) bool {
		return slices.ContainsFunc(p.Wakes, func(o RawWake) bool { return o.WakeRef == w.WakeRef })
	})
	x.Sends = slices.DeleteFunc(slices.Clone(e.Sends), func(s RawSends) bool {
		return slices.ContainsFunc(p.Sends, func(o RawSends) bool { return o.Seq == s.Seq })
	})
	if p.SnapshotSeq > 0 {
		x.SnapshotSeq, x.Snapshot = 0, nil
	}
	if p.Deletes > 0 {
		x.Life, x.LastSeq, x.Cut, x.Wakes = p.Deletes, p.Deletes, 0, nil
		deletes := sharding.Record{Seq: p.Deletes, Delete: true}
		x.Records = append(x.Records, RawRecord{Seq: p.Deletes, Body: AppendRecord(nil, e.Entity, 0, time.UnixMilli(0), &deletes)})
	}
	return &x
}
