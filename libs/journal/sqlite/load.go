package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

type readStmts struct {
	opened, entity, last, snapshot, records, stored *sql.Stmt
	list, listType                                  *sql.Stmt
	wakes, sends, dead, pending, body, expired      *sql.Stmt
	ofEntity, history, snapshotSize                 *sql.Stmt
}

func (s *readStmts) prepare(ctx context.Context, db *sql.DB) error {
	return prepareAll(ctx, db, []statement{
		{&s.opened, openedSQL},
		{&s.entity, "SELECT id, snapshot, life, dropped, cut FROM entity WHERE type = ? AND name = ?"},
		{&s.last, "SELECT seq FROM record WHERE entity = ? ORDER BY seq DESC LIMIT 1"},
		{&s.snapshot, "SELECT body FROM snapshot WHERE entity = ?"},
		{&s.records, "SELECT seq, body FROM record WHERE entity = ? AND seq > ? ORDER BY seq"},
		{&s.stored, `SELECT r.seq, r.body, r.reply FROM command c JOIN record r ON r.entity = c.entity AND r.seq = c.seq
			WHERE c.entity = ? AND c.hash = ?`},
		{&s.list, "SELECT type, name FROM entity WHERE (type, name) > (?1, ?2) ORDER BY type, name LIMIT ?3"},
		{&s.listType, "SELECT type, name FROM entity WHERE type = ?1 AND name > ?2 ORDER BY name LIMIT ?3"},
		{&s.wakes, wakesSQL},
		{&s.sends, sendsSQL},
		{&s.dead, deadSQL},
		{&s.pending, "SELECT ifnull(sum(pending), 0) FROM send WHERE entity = ?"},
		{&s.body, bodySQL},
		{&s.expired, "SELECT forgotten FROM fence WHERE type = ? AND shard = ?"},
		{&s.history, "SELECT seq, body FROM record WHERE entity = ? AND seq < ? ORDER BY seq DESC"},
		{&s.snapshotSize, "SELECT length(body) FROM snapshot WHERE entity = ?"},
		{&s.ofEntity, `SELECT (SELECT count(*) FROM wake WHERE entity = ?1 AND kind = ?2),
			coalesce((SELECT due FROM wake WHERE entity = ?1 AND kind = ?3 AND name = ?4), 0)`},
	})
}

// Load implements [journal.Reader].
func (r *Reader) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	var out journal.Loaded
	if err := r.place.check(); err != nil {
		return out, fmt.Errorf("load %s: %w", req.Entity, err)
	}
	// One transaction, so that all statements see one moment.
	t, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err == nil {
		out, err = r.load(ctx, t, req)
		_ = t.Rollback() // nothing to lose
	}
	if damaged(err) { // on the way to this entity
		err = r.corrupt(err)
	}
	if err != nil {
		return journal.Loaded{}, fmt.Errorf("load %s: %w", req.Entity, err)
	}
	return out, nil
}

func (r *Reader) load(ctx context.Context, t *sql.Tx, req journal.LoadRequest) (journal.Loaded, error) {
	var out journal.Loaded
	var id, snapshot, life, dropped, last, cut int64
	facts, err := queryOpened(ctx, t.StmtContext(ctx, r.stmts.opened))
	if err == nil {
		err = facts.CheckOpenedReader(r.generation)
	}
	if err != nil {
		return out, err
	}
	err = t.StmtContext(ctx, r.stmts.entity).QueryRowContext(ctx, string(req.Entity.Type), string(req.Entity.ID)).Scan(&id, &snapshot, &life, &dropped, &cut)
	if errors.Is(err, sql.ErrNoRows) {
		out.Stored, err = r.absent(ctx, t, req)
		return out, err
	}
	if err != nil {
		return out, err
	}
	err = t.StmtContext(ctx, r.stmts.last).QueryRowContext(ctx, id).Scan(&last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return out, err
	}
	out.LastSeq, out.Life = uint64(last), uint64(life)
	marks := journal.TrimMarks{Life: out.Life, Cut: uint64(cut)}
	out.Cut = marks.Trimmed()
	if req.Wakes {
		var due int64
		err = t.StmtContext(ctx, r.stmts.ofEntity).QueryRowContext(ctx, id, int(sharding.ReminderWake), int(sharding.RememberWake), journal.RememberName).
			Scan(&out.Reminders, &due)
		if out.Remembered = -due; err != nil {
			return out, err
		}
	}
	if req.LookupOnly {
		out.Stored, err = r.lookup(ctx, t, req, id, dropped)
		return out, err
	}
	// If this is damaged, the entity can live all the same: it only serves to keep a limit.
	if err := t.StmtContext(ctx, r.stmts.pending).QueryRowContext(ctx, id).Scan(&out.Pending); err != nil && !damaged(err) {
		return out, err
	}
	if req.WithoutSnapshot {
		snapshot = 0
	}
	if snapshot != 0 {
		var body []byte
		if err := t.StmtContext(ctx, r.stmts.snapshot).QueryRowContext(ctx, id).Scan(&body); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				err = fmt.Errorf("%w: %s, the snapshot at %d is missing", journal.ErrCorrupt, req.Entity, snapshot)
			}
			return out, err
		}
		if out.Snapshot, err = journal.DecodeSnapshot(req.Entity, uint64(snapshot), body); err != nil {
			return out, err
		}
	}
	after, err := journal.ReplayFrom(req.Entity, out.Snapshot.Seq, out.Life, out.Cut)
	if err != nil {
		return out, err
	}
	if out.Records, err = r.loadRecords(ctx, t, req.Entity, id, int64(after), last); err != nil {
		return out, err
	}
	out.Stored, err = r.lookup(ctx, t, req, id, dropped)
	return out, err
}

// absent looks up commands of an entity without stored data: their keys have expired if an entity
// of the shard with newer keys was purged.
func (r *Reader) absent(ctx context.Context, t *sql.Tx, req journal.LoadRequest) (map[sharding.CommandID]sharding.Stored, error) {
	if len(req.Lookup) == 0 {
		return nil, nil
	}
	var expired int64
	err := t.StmtContext(ctx, r.stmts.expired).QueryRowContext(ctx, string(req.Shard.Type), req.Shard.Index).Scan(&expired)
	if err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return nil, err
	}
	var found map[sharding.CommandID]sharding.Stored
	for _, c := range req.Lookup {
		if !journal.Expired(fromMillis(expired), c) {
			continue
		}
		if found == nil {
			found = map[sharding.CommandID]sharding.Stored{}
		}
		found[c] = sharding.Stored{Expired: true}
	}
	return found, nil
}

// loadRecords reads the records after the snapshot's record, or after the record that deleted the
// entity. A missing record is damage like a changed one.
func (r *Reader) loadRecords(ctx context.Context, t *sql.Tx, entity sharding.Entity, id, after, last int64) ([]sharding.Record, error) {
	if after >= last {
		if after > last {
			return nil, fmt.Errorf("%w: %s, record %d is missing, the snapshot or the delete is at %d", journal.ErrCorrupt, entity, last+1, after)
		}
		return nil, nil
	}
	rows, err := t.StmtContext(ctx, r.stmts.records).QueryContext(ctx, id, after)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	// The numbers are as they are stored, and may be damaged: they do not decide how much
	// memory is taken before the records are seen.
	records := make([]sharding.Record, 0, min(uint64(last)-uint64(after), 1024))
	for next := uint64(after) + 1; rows.Next(); next++ {
		var seq int64
		var body sql.RawBytes
		if err := rows.Scan(&seq, &body); err != nil {
			return nil, err
		}
		if uint64(seq) != next {
			return nil, fmt.Errorf("%w: %s, record %d is missing", journal.ErrCorrupt, entity, next)
		}
		e, err := journal.DecodeRecord(entity, next, body)
		if err != nil {
			return nil, err
		}
		if len(records) == cap(records) {
			records = slices.Grow(records, len(records)) // twice as many: append itself would copy long histories several times
		}
		records = append(records, e.Record)
	}
	return records, rows.Err()
}

func (r *Reader) lookup(ctx context.Context, t *sql.Tx, req journal.LoadRequest, id, dropped int64) (map[sharding.CommandID]sharding.Stored, error) {
	if len(req.Lookup) == 0 {
		return nil, nil
	}
	found := make(map[sharding.CommandID]sharding.Stored, len(req.Lookup))
	find := t.StmtContext(ctx, r.stmts.stored)
	for _, c := range req.Lookup {
		s, ok, err := lookupOne(ctx, find, req.Entity, id, c)
		if err != nil {
			return nil, err
		}
		if !ok && journal.Expired(fromMillis(dropped), c) {
			s, ok = sharding.Stored{Expired: true}, true
		}
		if ok {
			found[c] = s
		}
	}
	return found, nil
}

func lookupOne(ctx context.Context, find *sql.Stmt, entity sharding.Entity, id int64, c sharding.CommandID) (sharding.Stored, bool, error) {
	rows, err := find.QueryContext(ctx, id, commandHash(c))
	if err != nil {
		return sharding.Stored{}, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var body, reply sql.RawBytes
		if err := rows.Scan(&seq, &body, &reply); err != nil {
			return sharding.Stored{}, false, err
		}
		e, err := journal.DecodeRecord(entity, uint64(seq), body)
		if err != nil {
			return sharding.Stored{}, false, err
		}
		if e.Record.Command == c {
			r, err := journal.DecodeReply(entity, uint64(seq), reply)
			return sharding.Stored{Hash: e.Record.Hash, Reply: r}, err == nil, err
		}
	}
	return sharding.Stored{}, false, rows.Err()
}
