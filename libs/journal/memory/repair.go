package memory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Raw returns the stored data of an entity.
func (l *Ledger) Raw(id sharding.Entity) (journal.RawEntity, error) {
	out := journal.RawEntity{Entity: id}
	e := l.entities[id]
	if e == nil {
		return out, nil
	}
	marks := e.marks()
	out.LastSeq, out.Life, out.Cut, out.SnapshotSeq = e.last(), e.life, marks.Trimmed(), e.snapshot.Seq
	if out.SnapshotSeq > 0 {
		out.Snapshot = journal.AppendSnapshot(nil, &journal.WriteSnapshot{Entity: id, Snapshot: e.snapshot})
	}
	for i := range e.entries {
		x := &e.entries[i]
		r := journal.RawRecord{Seq: x.record.Seq, Body: journal.AppendRecord(nil, id, x.epoch, x.wall, &x.record), Reply: journal.AppendReply(nil, id, &x.record)}
		if slices.Contains(e.damaged, r.Seq) {
			r.Body[len(r.Body)-1] ^= 1
		}
		if err := out.Add(r); err != nil {
			return out, err
		}
	}
	for _, key := range e.wakeKeys() {
		w := e.wakes[key]
		if err := out.AddWake(journal.RawWake{WakeRef: sharding.WakeRef{Kind: key.kind, Name: key.name, Seq: w.seq, Number: w.number}, Due: w.due, Period: w.period}); err != nil {
			return out, err
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(e.sends)) {
		if err := out.AddSends(journal.RawSends{Seq: seq, States: slices.Clone(e.sends[seq].states)}); err != nil {
			return out, err
		}
	}
	return out, nil
}

// Repair repairs an entity, as one transaction.
func (l *Ledger) Repair(now journal.Moment, r *journal.Repair) (journal.RepairPlan, error) {
	before := l.Clone()
	t := &repairTx{tx: (*tx)(l), now: now}
	p, err := journal.DecideRepair(r, now.Wall, t)
	if err != nil {
		*l = *before
	}
	return p, err
}

// repairTx implements [journal.RepairTx] on the ledger.
type repairTx struct {
	*tx
	now journal.Moment
}

func (t *repairTx) Raw(id sharding.Entity) (journal.RawEntity, error) { return (*Ledger)(t.tx).Raw(id) }

func (t *repairTx) Last(id sharding.Entity) (uint64, error) {
	if e := t.entities[id]; e != nil {
		return e.last(), nil
	}
	return 0, nil
}

func (t *repairTx) Decide(ops []journal.Op) ([]journal.Result, error) {
	return (*Ledger)(t.tx).Apply(t.now, ops), nil
}

func (t *repairTx) Apply(id sharding.Entity, p *journal.RepairPlan) error {
	e := t.entities[id]
	e.entries = slices.Clone(e.entries) // a clone of the ledger may share it
	for _, seq := range p.Expire {
		if x := e.at(seq); x != nil && e.commands[x.record.Command] == seq {
			delete(e.commands, x.record.Command)
		}
	}
	if p.Dropped.After(e.dropped) {
		e.dropped = p.Dropped
	}
	for i := range p.Put {
		put := &p.Put[i]
		entry, err := journal.DecodeRecord(id, put.Seq, put.Body)
		if err != nil {
			return err
		}
		if entry.Record.Reply, err = journal.DecodeReply(id, put.Seq, put.Reply); err != nil {
			return err
		}
		x := e.at(put.Seq)
		if x == nil {
			return fmt.Errorf("%w: record %d is missing", journal.ErrCorrupt, put.Seq) // which cannot be here
		}
		x.record = entry.Record
		e.damaged = slices.DeleteFunc(slices.Clone(e.damaged), func(seq uint64) bool { return seq == put.Seq })
	}
	if p.SnapshotSeq > 0 {
		e.snapshot = journal.Snapshot{}
	}
	for _, w := range p.Wakes {
		delete(e.wakes, wakeKey{w.Kind, w.Name})
	}
	for _, s := range p.Sends {
		delete(e.sends, s.Seq)
	}
	return nil
}
