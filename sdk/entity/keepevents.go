package entity

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/turn"
)

// KeepEvents trims the journal: it deletes the events of an entity that a snapshot has made superfluous,
// except in the newest n records. A record holds the stored result of one command: its events, if it has
// any, and its reply. Default: all events are kept forever. It is for entities that live long and change
// often, and whose past is not needed.
//
// The price: the snapshot is then the only copy of the state. An entity with trimmed events is never
// rebuilt from events. A mistake in Apply that got into the state stays, and the type must go on reading
// the snapshots that it has stored: a change of the exported fields needs [Type.SnapshotV] with a step. A
// shard with snapshots that a region does not read is not given to it. So the n records serve people and
// tools that read the journal, and no recovery.
//
// It needs SnapshotEvery, at most 2500: so many records a snapshot trims at least. What is trimmed
// stays trimmed. To stop trimming, raise n. If KeepEvents is removed, entities that were trimmed get no
// snapshots any more, and take longer and longer to load.
func (t *Type[E]) KeepEvents(n int) *Type[E] {
	t.def.trims, t.def.keepEvents = true, n
	return t
}

// checkKeepEvents returns an error if events of the type cannot be trimmed.
func (d *definition) checkKeepEvents() error {
	switch {
	case !d.trims:
		return nil
	case d.volatile:
		return fmt.Errorf("entity type %s: a volatile type stores no events, so it cannot have KeepEvents", d.name)
	case d.keepEvents < 1:
		return fmt.Errorf("entity type %s: KeepEvents(%d), must be at least 1", d.name, d.keepEvents)
	case d.snapshot == 0:
		return fmt.Errorf("entity type %s: KeepEvents needs snapshots, which take the place of the events: add SnapshotEvery", d.name)
	case d.snapshot > turn.MaxTrimmedEvery:
		return fmt.Errorf("entity type %s: SnapshotEvery is %d, at most %d with KeepEvents: a snapshot trims a bounded number of records", d.name, d.snapshot, turn.MaxTrimmedEvery)
	}
	return nil
}
