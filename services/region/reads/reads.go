// Package reads translates the reads of a region's cores into requests to the journal, and the
// journal's answers into inputs of the cores. The drivers of regions and the simulation share it,
// so that they cannot differ.
//
// # What this does not do
//
// It reads nothing: a driver gives it the answer of the journal, or the error.
package reads

import (
	"errors"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// Load returns the request for a [turn.Load].
func Load(o turn.Load) journal.LoadRequest {
	return journal.LoadRequest{Entity: o.Entity, Shard: o.Shard, Lookup: o.Lookup, LookupOnly: o.LookupOnly, Wakes: o.Wakes, Background: o.Background}
}

// Loaded puts what the journal has of an entity into the answer to a [turn.Load].
func Loaded(in *turn.Loaded, found *journal.Loaded) {
	in.LastSeq, in.Life, in.Fresh, in.Trimmed = found.LastSeq, found.Life, found.Fresh(), found.Cut > 0
	in.Stored, in.Pending, in.RememberedActivity, in.Reminders = found.Stored, found.Pending, found.Remembered, found.Reminders
	for i := range found.Records {
		r := &found.Records[i]
		in.Events += max(1, len(r.Events))
		in.Bytes += r.ReplaySize()
	}
}

// NotLoaded puts the reason why the journal has not answered a [turn.Load] into the answer. The stored data may
// be at fault: then loading it again would not help. Everything else may pass.
func NotLoaded(in *turn.Loaded, err error) {
	switch {
	case errors.Is(err, journal.ErrCorrupt) && !mutant.On("damaged-load"):
		in.Code, in.Err = sharding.DataLoss, "what is stored of the entity is damaged; roost journal repair record says what can be done"
	case errors.Is(err, journal.ErrTrimmed):
		in.Code, in.Err = sharding.DataLoss, "the snapshot of the entity cannot be read by this version, and the events before it were trimmed; run a version that reads the snapshot"
	default:
		in.Code, in.Err, in.Retry = sharding.Unavailable, err.Error(), true
	}
}

// Sends returns the request for an [outbox.Read].
func Sends(o outbox.Read) journal.SendsRequest {
	req := journal.SendsRequest{Limit: o.Limit}
	for _, p := range o.Shards {
		req.Shards = append(req.Shards, journal.SendPosition{Shard: p.Shard, Entity: p.Entity, Seq: p.Seq})
	}
	return req
}

// SendsPage is the answer to an [outbox.Read].
func SendsPage(o outbox.Read, page journal.SendsPage, err error) outbox.Page {
	out := outbox.Page{Number: o.Number, Now: page.Now, More: page.More, Failed: failed(page.Damaged), Err: text(err)}
	for i := range page.Rows {
		r := &page.Rows[i]
		rec := outbox.Record{Shard: r.Shard, Entity: r.Entity, Seq: r.Seq, At: r.At, Epoch: r.Epoch, Err: text(r.Err)}
		for place, s := range r.Pending() {
			rec.Sends = append(rec.Sends, outbox.Pending{Place: uint16(place), Send: *s})
		}
		out.Records = append(out.Records, rec)
	}
	return out
}

// Send returns the request for a [turn.ReadSend]: first with dead false, and if that finds nothing with dead
// true. So a send that dies meanwhile is found.
func Send(o turn.ReadSend, dead bool) journal.SendsRequest {
	return journal.SendRequest(o.Shard, o.Entity, o.Seq, dead)
}

// ReadSendDone returns the answer to a [turn.ReadSend], from one of its two reads. last is true if no other
// read is needed.
func ReadSendDone(o turn.ReadSend, dead bool, page journal.SendsPage, err error) (out turn.ReadSendDone, last bool) {
	out = turn.ReadSendDone{Incarnation: o.Incarnation, Request: o.Request, State: sharding.SendDone}
	if err == nil && len(page.Damaged) > 0 {
		err = page.Damaged[0].Err
	}
	if err == nil {
		out.State, out.Send, err = journal.FindSend(page.Rows, o.Entity, o.Seq, int(o.Place))
	}
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		out.Code, out.Err = sharding.DataLoss, "what is stored of it is damaged"
	case err != nil:
		out.Code, out.Err = sharding.Unavailable, "the journal does not answer; try again"
	}
	return out, dead || err != nil || out.State != sharding.SendDone
}

// Wakes returns the request for a [wakeup.Read].
func Wakes(o wakeup.Read) journal.WakesRequest {
	req := journal.WakesRequest{Until: o.Until, Limit: o.Limit}
	for _, p := range o.Shards {
		req.Shards = append(req.Shards, journal.ShardPosition{Shard: p.Shard, After: journal.WakePosition{
			Due: p.Due, Entity: p.Entity, Kind: p.Kind, Name: p.Name,
		}})
	}
	return req
}

// WakesPage is the answer to a [wakeup.Read].
func WakesPage(o wakeup.Read, page journal.WakesPage, err error) wakeup.Page {
	out := wakeup.Page{Number: o.Number, Remembered: o.Remembered, Now: page.Now, More: page.More, Failed: failed(page.Damaged), Err: text(err)}
	for i := range page.Rows {
		w := &page.Rows[i]
		out.Wakes = append(out.Wakes, wakeup.Stored{
			Shard: w.Shard, Entity: w.Entity, WakeRef: w.WakeRef, Due: w.Due, Period: w.Period, Input: w.Input, Err: text(w.Err),
		})
	}
	return out
}

// Deleted returns the request for a [purge.Read].
func Deleted(o purge.Read) journal.WakesRequest {
	req := journal.WakesRequest{Until: journal.PurgeFrom + o.Until, Limit: o.Limit}
	for _, shard := range o.Shards {
		req.Shards = append(req.Shards, journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: journal.PurgeFrom}})
	}
	return req
}

// DeletedPage is the answer to a [purge.Read].
func DeletedPage(o purge.Read, page journal.WakesPage, err error) purge.Page {
	out := purge.Page{Number: o.Number, Now: page.Now, More: page.More, Failed: failed(page.Damaged), Err: text(err)}
	for i := range page.Rows {
		w := &page.Rows[i]
		out.Wakes = append(out.Wakes, purge.Wake{Shard: w.Shard, Entity: w.Entity, Life: w.Seq, Due: w.Due})
	}
	return out
}

func failed(damaged []journal.Damaged) (shards []sharding.ShardID) {
	for _, d := range damaged {
		shards = append(shards, d.Shard)
	}
	return shards
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
