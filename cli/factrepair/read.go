package factrepair

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// pageRecords and pageBytes bound one read.
	pageRecords, pageBytes = 256, 4 << 20
	// maxStream bounds the bytes read of a stream: about ten times as many as for the largest table.
	maxStream = 1 << 30
)

// Checked is the result of [Check].
type Checked struct {
	*factstream.Examination
	// decisions is the last record of the decisions that is damaged; 0: none is.
	decisions uint64
	cluster   string
	// undeclared are the types whose number of shards the journal has lost.
	undeclared []sharding.TypeDesc
	last       uint64 // the last record of the facts
	heartbeat  sharding.JournalHeartbeat
}

// Check finds what is damaged in the coordinators' data. It only reads. fence is the epoch at which the facts were
// last claimed; 0: it is not known.
func Check(ctx context.Context, r journal.Reader, fence sharding.Epoch) (*Checked, error) {
	facts, err := r.Facts(ctx)
	if err != nil {
		return nil, err
	}
	c := &Checked{cluster: facts.Cluster}
	if c.heartbeat, err = heartbeat(ctx, r); err != nil && !errors.Is(err, journal.ErrCorrupt) {
		return nil, err
	}
	s := factstream.Stream{Fence: fence, Used: err != nil || c.heartbeat != (sharding.JournalHeartbeat{}), Shards: map[sharding.EntityType]uint32{}}
	for _, t := range facts.Types {
		s.Shards[t.Type] = t.Shards
	}
	if s.Start, s.Last, s.Records, err = read(ctx, r, wire.FactsEntity, true); err != nil {
		return nil, err
	}
	c.last = s.Last
	if _, err := r.Load(ctx, journal.LoadRequest{Entity: wire.FactsEntity}); err != nil {
		if !damage(err) {
			return nil, err
		}
		if intact(s) { // so it is not in the records
			s.Mark = err
		}
	}
	c.Examination = factstream.Examine(s)
	for _, t := range c.Types() {
		if s.Shards[t.Type] == 0 && c.cluster != "" {
			c.undeclared = append(c.undeclared, t)
			c.Findings = append(c.Findings, factstream.Finding{
				Form: "journal", About: string(t.Type), Wrong: "the journal has lost how many shards the type has", Cost: fmt.Sprintf("nothing: the facts say that it has %d", t.Shards),
			})
		}
	}
	return c, c.checkDecisions(ctx, r)
}

// intact reports whether all records are there and can be read.
func intact(s factstream.Stream) bool {
	return uint64(len(s.Records)) == s.Last-s.Start && !slices.ContainsFunc(s.Records, func(r factstream.Record) bool { return r.Err != nil })
}

// damage reports whether an error of a read means damaged data.
func damage(err error) bool {
	return errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrTrimmed)
}

func heartbeat(ctx context.Context, r journal.Reader) (sharding.JournalHeartbeat, error) {
	l, err := r.Load(ctx, journal.LoadRequest{Entity: journal.HeartbeatEntity})
	if err != nil || l.Snapshot.Seq == 0 {
		return sharding.JournalHeartbeat{}, err
	}
	return journal.DecodeHeartbeat(l.Snapshot.Payload)
}

// checkDecisions looks for damaged records of the decisions.
func (c *Checked) checkDecisions(ctx context.Context, r journal.Reader) error {
	start, last, records, err := read(ctx, r, wire.DecisionsEntity, false)
	if err != nil {
		return err
	}
	next, wrong := start+1, ""
	for _, rec := range append(records, factstream.Record{Seq: last + 1}) {
		if rec.Seq > next {
			c.decisions, wrong = rec.Seq-1, "it is missing"
		}
		if rec.Err != nil {
			c.decisions, wrong = rec.Seq, rec.Err.Error()
		}
		next = rec.Seq + 1
	}
	if c.decisions > 0 {
		c.Findings = append(c.Findings, factstream.Finding{
			Record: c.decisions, Form: "decisions", Wrong: wrong, Cost: "the decisions up to that record, which roost shard show lists",
		})
	}
	return nil
}

// read reads the records of an entity after its mark. A record that is damaged is returned with its error. The
// content of the records is returned only with events.
func read(ctx context.Context, r journal.Reader, of sharding.Entity, events bool) (start, last uint64, records []factstream.Record, err error) {
	req := journal.HistoryRequest{Entity: of, Limit: pageRecords, Bytes: pageBytes}
	size := 0
	for first := true; ; first = false {
		h, err := r.History(ctx, req)
		switch {
		case first && err != nil:
			return 0, 0, nil, err
		case first:
			// A mark has no content. So if it is lost, nothing is lost but where reading begins.
			start, last = min(max(h.SnapshotSeq, h.Life, h.Cut), h.LastSeq), h.LastSeq
		case damage(err) && req.Limit > 1:
			req.Limit = 1
			continue
		case damage(err):
			records = append(records, factstream.Record{Seq: req.Before - 1, Err: err})
			req.Before--
		case err != nil:
			return 0, 0, nil, err
		}
		for i := range h.Records {
			rec := &h.Records[i]
			if rec.Seq <= start {
				break
			}
			f := factstream.Record{Seq: rec.Seq, Err: rec.Err}
			if size += rec.Bytes; size > maxStream {
				return 0, 0, nil, fmt.Errorf("%s has more than %d MiB of records: %w", of, maxStream>>20, journal.ErrTooLarge)
			}
			if events && rec.Err == nil {
				f.Events = rec.Record.Events
			}
			records, req.Before = append(records, f), rec.Seq
		}
		if n := len(h.Records); err == nil && (n == 0 || !h.More || h.Records[n-1].Seq <= start) || req.Before > 0 && req.Before <= start+1 {
			slices.Reverse(records)
			return start, last, records, nil
		}
	}
}
