package memory

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// tx implements [journal.Tx] on the ledger.
type tx Ledger

func (t *tx) Fence(shard sharding.ShardID) (sharding.Fence, error) { return t.fences[shard], nil }

func (t *tx) Head(id sharding.Entity, records []sharding.Record) (journal.Head, error) {
	e := t.entities[id]
	if e == nil {
		return journal.Head{}, nil
	}
	h := journal.Head{LastSeq: e.last(), SnapshotSeq: e.snapshot.Seq, Life: e.life, Cut: e.cut, Dropped: e.dropped}
	for i := range records {
		if c := records[i].Command; c != "" {
			if _, ok := e.commands[c]; ok {
				h.Duplicate = true
			}
		}
	}
	return h, nil
}

func (t *tx) NewestExpired(shard sharding.ShardID) (time.Time, error) { return t.expired[shard], nil }

func (t *tx) Wake(id sharding.Entity, kind sharding.WakeKind, name string) (sharding.WakeRef, bool, error) {
	if e := t.entities[id]; e != nil {
		w, found := e.wakes[wakeKey{kind, name}]
		return sharding.WakeRef{Kind: kind, Name: name, Seq: w.seq, Number: w.number}, found, nil
	}
	return sharding.WakeRef{}, false, nil
}

func (t *tx) Sends(id sharding.Entity, seq uint64) (journal.SendStates, error) {
	if e := t.entities[id]; e != nil {
		return e.sends[seq].states, nil
	}
	return nil, nil
}

func (t *tx) Write(op *journal.Op) error {
	switch {
	case op.Claim != nil:
		t.fences[op.Claim.Shard] = sharding.Fence{Epoch: op.Claim.Epoch, Owner: op.Claim.Owner}
	case op.Append != nil:
		t.append(op.Append)
	case op.Snapshot != nil:
		// Decide has checked that the record is stored, so the entity exists.
		e := t.entities[op.Snapshot.Entity]
		e.snapshot = op.Snapshot.Snapshot
		e.expireKeys(&t.cfg, t.now.Wall)
		e.trimEvents(op.Snapshot.Cut)
	case op.Drop != nil:
		t.entities[op.Drop.Entity].snapshot = journal.Snapshot{}
	case op.Purge != nil:
		t.purge(op.Purge)
	}
	return nil
}

func (t *tx) append(a *sharding.Append) {
	e := t.entities[a.Entity]
	if e == nil {
		if len(a.Records) == 0 {
			return // it has no wake-up, and no sends
		}
		e = &entity{commands: map[sharding.CommandID]uint64{}, dropped: t.expired[a.Shard]}
		t.entities[a.Entity] = e
	}
	e.changeWakes(a, t.cfg.LookAt(t.now.Wall))
	e.changeSends(a)
	stamp := e.stamp().Next(t.now)
	for i := range a.Records {
		r := a.Records[i]
		r.Reply.Timing = sharding.Timing{}
		if r.Command != "" {
			e.commands[r.Command] = r.Seq
		}
		if r.Delete {
			e.life, e.snapshot = r.Seq, journal.Snapshot{}
		}
		e.entries = append(e.entries, entry{record: r, epoch: a.Epoch, stamp: stamp, wall: t.now.Wall})
	}
	if len(a.Records) > 0 {
		e.looked = journal.Stamp{}
		e.expireKeys(&t.cfg, t.now.Wall)
	}
	t.log = append(t.log, Committed{Epoch: a.Epoch, Append: *a})
}
