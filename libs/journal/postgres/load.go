package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// loadSQL reads an entity in one statement, which sees one moment: its head
// with the snapshot, the records after that, the records of commands, and what CheckOpenedReader needs.
const loadSQL = `
	SELECT 0, e.last, CASE WHEN $5 THEN 0 ELSE e.snapshot END, e.life, e.dropped, NULL::bytea, s.body, NULL::bytea, e.cut
		FROM roost.entity e LEFT JOIN roost.snapshot s ON s.entity = ANY (ARRAY[e.id]) AND NOT $4::boolean AND NOT $5::boolean
		WHERE e.type = $1 AND e.name = $2
	UNION ALL
	SELECT 1, r.seq, 0, 0, NULL, NULL, r.body, NULL, 0
		FROM roost.entity e JOIN roost.record r ON r.entity = ANY (ARRAY[e.id]) AND r.seq > CASE WHEN $5 THEN e.life ELSE greatest(e.snapshot, e.life) END AND NOT $4
		WHERE e.type = $1 AND e.name = $2
	UNION ALL
	SELECT 2, r.seq, 0, 0, NULL, r.command, r.body, r.reply, 0
		FROM roost.entity e CROSS JOIN unnest($3::bytea[]) AS k (command)
		CROSS JOIN LATERAL (SELECT x.seq, x.command, x.body, x.reply, x.at FROM roost.record x
			WHERE x.entity = e.id AND x.command = k.command LIMIT 1) r
		WHERE e.type = $1 AND e.name = $2 AND (r.seq > e.trimmed OR r.at IS NULL)
	UNION ALL
	SELECT 3, m.generation, m.min_reader, 0, (SELECT f.forgotten FROM roost.fence f WHERE f.type = $6 AND f.shard = $7), NULL, NULL, NULL, 0
		FROM roost.meta m WHERE m.one
	UNION ALL
	SELECT 4, coalesce(sum(x.pending), 0), 0, 0, NULL, NULL, NULL, NULL, 0
		FROM roost.entity e JOIN roost.send x ON x.entity = ANY (ARRAY[e.id]) AND NOT $4
		WHERE e.type = $1 AND e.name = $2
	UNION ALL
	SELECT 5, count(*) FILTER (WHERE w.kind = $9), coalesce(min(w.due) FILTER (WHERE w.kind = $10 AND w.name = $11), 0), 0, NULL, NULL, NULL, NULL, 0
		FROM roost.entity e JOIN roost.wake w ON w.entity = ANY (ARRAY[e.id])
		WHERE $8 AND e.type = $1 AND e.name = $2`

// body is a stored form with its sequence number, and the command that was
// looked for, if any, with its reply.
type body struct {
	seq     uint64
	command sharding.CommandID
	form    []byte
	reply   []byte
}

// stored holds the result of loadSQL.
type stored struct {
	last, snapshot    uint64
	life, cut         uint64
	snapshotBody      []byte
	dropped           time.Time
	expired           time.Time     // of the shard
	opened            journal.Facts // generation and lowest reader
	records, commands []body
	pending           int // sends
	remembered        int64
	reminders         int
}

// Load implements [journal.Reader], in one round trip.
func (r *Reader) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	s, err := r.read(ctx, req)
	switch {
	case damaged(err): // a page that this entity needs
		err = corrupt(err)
	case errors.Is(err, context.DeadlineExceeded):
		r.pool.Reset() // other connections are probably dead too
	}
	var out journal.Loaded
	if err == nil {
		err = s.opened.CheckOpenedReader(r.generation)
	}
	if err == nil {
		out, err = s.decode(req)
	}
	if err != nil {
		return journal.Loaded{}, fmt.Errorf("load %s: %w", req.Entity, err)
	}
	return out, nil
}

func (r *Reader) read(ctx context.Context, req journal.LoadRequest) (*stored, error) {
	lookup := make([][]byte, len(req.Lookup))
	for i, c := range req.Lookup {
		lookup[i] = []byte(c)
	}
	rows, err := r.pool.Query(ctx, loadName, string(req.Entity.Type), []byte(req.Entity.ID), lookup, req.LookupOnly, req.WithoutSnapshot, string(req.Shard.Type), int64(req.Shard.Index),
		req.Wakes, int16(sharding.ReminderWake), int16(sharding.RememberWake), []byte(journal.RememberName))
	if err != nil {
		return nil, err
	}
	s := &stored{}
	var kind int
	var seq, snapshot, life, cut int64
	var dropped *int64
	var command, form, reply []byte
	_, err = pgx.ForEachRow(rows, []any{&kind, &seq, &snapshot, &life, &dropped, &command, &form, &reply, &cut}, func() error {
		switch kind {
		case 0:
			s.last, s.snapshot, s.life, s.cut, s.snapshotBody = uint64(seq), uint64(snapshot), uint64(life), uint64(cut), form
			if dropped != nil {
				s.dropped = time.UnixMilli(*dropped).UTC()
			}
		case 1:
			s.records = append(s.records, body{seq: uint64(seq), form: form})
		case 2:
			s.commands = append(s.commands, body{seq: uint64(seq), command: sharding.CommandID(command), form: form, reply: reply})
		case 3:
			if dropped != nil {
				s.expired = time.UnixMilli(*dropped).UTC()
			}
			s.opened = journal.Facts{Generation: sharding.Generation(seq), MinReader: int(snapshot)}
		case 4:
			s.pending = int(seq)
		case 5:
			s.reminders, s.remembered = int(seq), -snapshot
		}
		return nil
	})
	return s, err
}

func (s *stored) decode(req journal.LoadRequest) (journal.Loaded, error) {
	out := journal.Loaded{LastSeq: s.last, Life: s.life, Pending: s.pending, Remembered: s.remembered, Reminders: s.reminders}
	marks := journal.TrimMarks{Life: s.life, Cut: s.cut}
	out.Cut = marks.Trimmed()
	if s.last == 0 {
		s.dropped = s.expired
	}
	var err error
	if req.LookupOnly {
		return out, s.lookup(req, &out)
	}
	if s.snapshot > 0 {
		if out.Snapshot, err = journal.DecodeSnapshot(req.Entity, s.snapshot, s.snapshotBody); err != nil {
			return out, err
		}
	}
	if out.Records, err = s.decodeRecords(req.Entity, out.Cut); err != nil {
		return out, err
	}
	return out, s.lookup(req, &out)
}

// lookup decodes what was found of commands.
func (s *stored) lookup(req journal.LoadRequest, out *journal.Loaded) error {
	for _, c := range s.commands {
		e, err := journal.DecodeRecord(req.Entity, c.seq, c.form)
		if err != nil {
			return err
		}
		reply, err := journal.DecodeReply(req.Entity, c.seq, c.reply)
		if err != nil {
			return err
		}
		out.Stored = put(out.Stored, c.command, sharding.Stored{Hash: e.Record.Hash, Reply: reply})
	}
	for _, c := range req.Lookup {
		if _, ok := out.Stored[c]; !ok && journal.Expired(s.dropped, c) {
			out.Stored = put(out.Stored, c, sharding.Stored{Expired: true})
		}
	}
	return nil
}

// decodeRecords reads the records after the snapshot's record, or after the record that deleted the
// entity. A missing record is damage like a changed one.
func (s *stored) decodeRecords(entity sharding.Entity, cut uint64) ([]sharding.Record, error) {
	after, err := journal.ReplayFrom(entity, s.snapshot, s.life, cut)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.records, func(a, b body) int { return cmp.Compare(a.seq, b.seq) })
	next := after + 1
	records := make([]sharding.Record, 0, len(s.records))
	for _, r := range s.records {
		if r.seq != next {
			break
		}
		e, err := journal.DecodeRecord(entity, r.seq, r.form)
		if err != nil {
			return nil, err
		}
		records = append(records, e.Record)
		next++
	}
	if next != s.last+1 || len(records) != len(s.records) {
		return nil, fmt.Errorf("%w: %s, record %d is missing or one too many, the last one is %d", journal.ErrCorrupt, entity, next, s.last)
	}
	return records, nil
}

func put(m map[sharding.CommandID]sharding.Stored, c sharding.CommandID, s sharding.Stored) map[sharding.CommandID]sharding.Stored {
	if m == nil {
		m = map[sharding.CommandID]sharding.Stored{}
	}
	m[c] = s
	return m
}
