package turn

import (
	"errors"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Found puts what the journal has of the entity into the answer to a [Load].
func (in *Loaded) Found(l *journal.Loaded) {
	in.LastSeq, in.Life, in.Fresh, in.Trimmed = l.LastSeq, l.Life, l.Fresh(), l.Cut > 0
	in.Stored, in.Pending, in.RememberedActivity, in.Reminders = l.Stored, l.Pending, l.Remembered, l.Reminders
	for i := range l.Records {
		r := &l.Records[i]
		in.Events += max(1, len(r.Events))
		in.Bytes += r.ReplaySize()
	}
}

// NotFound puts the error of the journal into the answer to a [Load]. If the stored data is at fault, loading it again
// would not help. Everything else may pass.
func (in *Loaded) NotFound(err error) {
	switch {
	// Invariant: a damaged entity is not loaded again and again. If an entity cannot be read for another reason, it is
	// loaded again.
	// Mutants: damaged-load
	case errors.Is(err, journal.ErrCorrupt): //mutant:false damaged-load
		in.Code, in.Err = sharding.DataLoss, "the stored data of the entity is damaged; roost journal repair record shows what can be done"
	case errors.Is(err, journal.ErrTrimmed):
		in.Code, in.Err = sharding.DataLoss, "the snapshot of the entity cannot be read by this version, and the events before it were trimmed; run a version that reads the snapshot"
	default:
		in.Code, in.Err, in.Retry = sharding.Unavailable, err.Error(), true
	}
}

// Query returns the request to the journal: first with dead false, and if that finds nothing with dead true. So a send
// that dies meanwhile is found.
func (o *ReadSend) Query(dead bool) journal.SendsRequest {
	return journal.SendRequest(o.Shard, o.Entity, o.Seq, dead)
}

// Answer returns the answer from the result of one of the two queries. last is true if no other query is needed.
func (o *ReadSend) Answer(dead bool, page journal.SendsPage, err error) (out ReadSendDone, last bool) {
	out = ReadSendDone{Incarnation: o.Incarnation, Request: o.Request, State: sharding.SendDone}
	if err == nil && len(page.Damaged) > 0 {
		err = page.Damaged[0].Err
	}
	if err == nil {
		out.State, out.Send, err = journal.FindSend(page.Entries, o.Entity, o.Seq, int(o.Place))
	}
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		out.Code, out.Err = sharding.DataLoss, "its stored data is damaged"
	case err != nil:
		out.Code, out.Err = sharding.Unavailable, "the journal does not answer; try again"
	}
	return out, dead || err != nil || out.State != sharding.SendDone
}
