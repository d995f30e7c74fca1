package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/roost-cluster/roost/libs/journal"
)

// History implements [journal.Reader].
func (r *Reader) History(ctx context.Context, req journal.HistoryRequest) (journal.History, error) {
	var out journal.History
	err := r.place.check()
	if err == nil {
		var t *sql.Tx
		if t, err = r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err == nil {
			err = r.history(ctx, t, &req, &out)
			_ = t.Rollback() // nothing to lose
		}
	}
	if damaged(err) {
		err = r.corrupt(err)
	}
	if err != nil {
		return journal.History{}, fmt.Errorf("read the records of %s: %w", req.Entity, err)
	}
	return out, nil
}

func (r *Reader) history(ctx context.Context, t *sql.Tx, req *journal.HistoryRequest, out *journal.History) error {
	facts, err := queryOpened(ctx, t.StmtContext(ctx, r.stmts.opened))
	if err == nil {
		err = facts.CheckOpenedReader(r.generation)
	}
	if err != nil {
		return err
	}
	var id, snapshot, life, dropped, last, cut int64
	err = t.StmtContext(ctx, r.stmts.entity).QueryRowContext(ctx, string(req.Entity.Type), string(req.Entity.ID)).Scan(&id, &snapshot, &life, &dropped, &cut)
	if err == nil {
		err = t.StmtContext(ctx, r.stmts.last).QueryRowContext(ctx, id).Scan(&last)
	}
	if err == nil && snapshot > 0 {
		err = t.StmtContext(ctx, r.stmts.snapshotSize).QueryRowContext(ctx, id).Scan(&out.SnapshotBytes)
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = nil // nothing is stored, or what is missing is not listed
	}
	if err != nil {
		return err
	}
	marks := journal.TrimMarks{Life: uint64(life), Cut: uint64(cut)}
	out.LastSeq, out.Life, out.Cut, out.SnapshotSeq = uint64(last), uint64(life), marks.Trimmed(), uint64(snapshot)
	before := int64(math.MaxInt64)
	if req.Before > 0 {
		before = int64(min(req.Before, math.MaxInt64))
	}
	rows, err := t.StmtContext(ctx, r.stmts.history).QueryContext(ctx, id, before)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var body sql.RawBytes
		if err := rows.Scan(&seq, &body); err != nil {
			return err
		}
		if !out.AddBody(req, uint64(seq), body) {
			return nil
		}
	}
	return rows.Err()
}
