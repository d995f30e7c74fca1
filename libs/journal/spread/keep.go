package spread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// noteEntity has the note of its database, in its newest record.
var noteEntity = sharding.Entity{Type: "roost.database", ID: "note"}

var noteShard = sharding.ShardID{Type: noteEntity.Type}

// noteEvent is the name of the event that has a [Note], in JSON.
const noteEvent = "note"

// raceTries is the number of attempts to change a note. An attempt fails if another process has changed the note
// meanwhile, so each time some process makes progress.
const raceTries = 100

// readNote returns the note of a database and the number of its record. Without one, both are zero.
func readNote(ctx context.Context, r journal.Reader) (n Note, seq uint64, err error) {
	l, err := r.Load(ctx, journal.LoadRequest{Entity: noteEntity})
	if err != nil || len(l.Records) == 0 {
		return n, 0, err
	}
	last := l.Records[len(l.Records)-1]
	if len(last.Events) != 1 || last.Events[0].Name != noteEvent {
		return n, 0, fmt.Errorf("%w: %s, record %d is not a note; was it written by a later release?", journal.ErrCorrupt, noteEntity, last.Seq)
	}
	if err := json.Unmarshal(last.Events[0].Payload, &n); err != nil {
		return n, 0, fmt.Errorf("%w: %s, record %d: %w", journal.ErrCorrupt, noteEntity, last.Seq, err)
	}
	return n, last.Seq, nil
}

// changeNote changes the note of a database by a function that is called again if another process was faster.
// It reports whether there is a change. changeNote returns the note that is stored in the end.
func changeNote(ctx context.Context, d journal.Backend, change func(Note) (Note, bool, error)) (Note, error) {
	for range raceTries {
		n, seq, err := readNote(ctx, d)
		if err != nil {
			return n, err
		}
		n, changed, err := change(n)
		if err != nil || !changed {
			return n, err
		}
		if stored, err := writeNote(ctx, d, seq+1, n); stored || err != nil {
			return n, err
		}
	}
	return Note{}, fmt.Errorf("%w: other processes change the note of the database all the time", journal.ErrNotCommitted)
}

// writeNote appends a note, and reports whether it did: not if another process was faster. All processes are one owner
// of the shard of the note, so that only the number of the record decides.
func writeNote(ctx context.Context, d journal.Backend, seq uint64, n Note) (stored bool, err error) {
	payload, err := json.Marshal(&n)
	if err != nil {
		return false, err
	}
	results, err := d.Commit(ctx, []journal.Op{{Fence: &sharding.ReadFence{Shard: noteShard}}})
	if err != nil {
		return false, err
	}
	f, err := journal.RepairFence(results[0].Fence)
	if err != nil {
		return false, err
	}
	results, err = d.Commit(ctx, []journal.Op{
		{Claim: &sharding.Claim{Shard: noteShard, Epoch: f.Epoch, Owner: f.Owner}},
		{Append: &sharding.Append{Shard: noteShard, Epoch: f.Epoch, Entity: noteEntity, Records: []sharding.Record{
			{Seq: seq, Events: []sharding.Event{{Name: noteEvent, Encoding: sharding.JSON, Payload: payload}}},
		}}},
	})
	return err == nil && results[1].Verdict == sharding.Durable, err
}

// CheckAlone returns why a program must not use a database as the only one of its journal: it has others, or is one of
// them. The error wraps [journal.ErrIdentity]. A process that declares types looks before and afterwards. So if another process
// makes it a journal of several databases meanwhile, this one notices it, or the other one finds the types.
func CheckAlone(ctx context.Context, r journal.Reader) error {
	n, seq, err := readNote(ctx, r)
	if err != nil || seq == 0 {
		return err
	}
	return errors.Join(n.check(First, 0), n.checkAll(nil))
}

// Renew stores in a database other than the first one the generation that the first one has after a restore of
// all of them.
func Renew(ctx context.Context, d journal.Backend, generation sharding.Generation) error {
	_, err := changeNote(ctx, d, func(n Note) (Note, bool, error) {
		changed := n.Of != generation
		n.Of = generation
		return n, changed, nil
	})
	return err
}

// Place stores in the first database the result of [Note.Place], and returns it.
func Place(ctx context.Context, first journal.Backend, stored []journal.TypeFact, declared []sharding.TypeDesc, want map[sharding.EntityType]int) (Note, error) {
	return changeNote(ctx, first, func(n Note) (Note, bool, error) { return n.Place(stored, declared, want) })
}
