// Package stored reads what the journal holds of entities, as the code of their types
// understands it: for a region that brings one to life, and for the tools that look at all
// of them before that code is rolled out ([Check]).
//
// # What this does not do
//
// It runs no handlers and no hooks, claims no shard and writes nothing.
package stored

import (
	"context"
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Source loads entities: a journal, or a handle that only reads.
type Source interface {
	Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error)
}

// Load loads an entity of type t. A snapshot of a form that t does not read, or in an encoding that
// no snapshot has yet, is ignored, which is reported, and all records are loaded instead. If their
// events were trimmed there is nothing instead: the error wraps [journal.ErrTrimmed] and
// [instance.ErrStored], and only the snapshot in the result counts.
func Load(ctx context.Context, from Source, t entity.Definition, req journal.LoadRequest) (found journal.Loaded, ignored bool, err error) {
	found, err = from.Load(ctx, req)
	if err == nil && found.Snapshot.Seq > 0 && !(found.Snapshot.Encoding == sharding.JSON && instance.ReadsSnapshot(t, found.Snapshot.Form)) {
		req.WithoutSnapshot = true
		whole, err := from.Load(ctx, req)
		if errors.Is(err, journal.ErrTrimmed) {
			form := found.Snapshot.Form
			return found, false, &instance.StoredError{
				Entity: req.Entity, What: "snapshot", Fix: fixTrimmed,
				Err: fmt.Errorf("this program does not read its version %d, shape %016x, and there is nothing else: %w", form.Version, form.Shape, journal.ErrTrimmed),
			}
		}
		return whole, true, err
	}
	return found, false, err
}

// fixTrimmed is the advice for a program that does not read the snapshot of an entity with trimmed
// events.
const fixTrimmed = "run the version that has stored it, or declare a step from it with SnapshotV and entity.FromSnapshot"

// Rebuild makes the instance that a loaded entity describes. An error about an event is an
// [*EventError]; one that wraps [instance.ErrStored] reports that t cannot read the stored data.
func Rebuild(t entity.Definition, id sharding.EntityID, found *journal.Loaded) (*instance.Instance, error) {
	inst, err := instance.New(t, id)
	if err != nil {
		return nil, err
	}
	if found.Snapshot.Seq > 0 {
		if err := inst.Restore(found.Snapshot.Form, found.Snapshot.Payload); err != nil {
			return nil, err
		}
	}
	for i := range found.Records {
		r := &found.Records[i]
		for n := range r.Events {
			if err := inst.Replay(r.Events[n : n+1]); err != nil {
				return nil, &EventError{Seq: r.Seq, Name: r.Events[n].Name, Version: int(r.Events[n].Version), Err: err}
			}
		}
	}
	return inst, nil
}

// EventError is an error about one stored event.
type EventError struct {
	Seq     uint64 // of its record
	Name    string
	Version int
	Err     error
}

func (e *EventError) Error() string {
	return fmt.Sprintf("record %d, event %s of version %d: %v", e.Seq, e.Name, e.Version, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }
