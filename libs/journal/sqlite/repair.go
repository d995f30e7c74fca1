package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Raw implements [journal.RawReader].
func (r *Reader) Raw(ctx context.Context, entity sharding.Entity) (journal.RawEntity, error) {
	var out journal.RawEntity
	err := r.place.check()
	if err == nil {
		var t *sql.Tx
		if t, err = r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err == nil {
			var facts journal.Facts
			if facts, err = queryOpened(ctx, t.StmtContext(ctx, r.stmts.opened)); err == nil {
				err = facts.CheckOpenedReader(r.generation)
			}
			if err == nil {
				_, out, err = readRaw(ctx, t, entity)
			}
			_ = t.Rollback() // nothing to lose
		}
	}
	if damaged(err) {
		err = r.corrupt(err)
	}
	if err != nil {
		return journal.RawEntity{}, fmt.Errorf("read the stored data of %s: %w", entity, err)
	}
	return out, nil
}

// Raw implements [journal.RawReader].
func (d *Backend) Raw(ctx context.Context, entity sharding.Entity) (journal.RawEntity, error) {
	return d.reads.Raw(ctx, entity)
}

// readRaw reads the stored data of an entity, and its number, in a transaction.
func readRaw(ctx context.Context, q querier, entity sharding.Entity) (id int64, e journal.RawEntity, err error) {
	e.Entity = entity
	var snapshot, life, cut int64
	rows, err := q.QueryContext(ctx, `SELECT e.id, e.snapshot, e.life, e.cut, s.body FROM entity e LEFT JOIN snapshot s ON s.entity = e.id AND e.snapshot <> 0
		WHERE e.type = ? AND e.name = ?`, string(entity.Type), string(entity.ID))
	if err = scan(rows, err, func(rows *sql.Rows) error { return rows.Scan(&id, &snapshot, &life, &cut, &e.Snapshot) }); err != nil || id == 0 {
		return id, e, err
	}
	e.SnapshotSeq, e.Life = uint64(snapshot), uint64(life)
	marks := journal.TrimMarks{Life: e.Life, Cut: uint64(cut)}
	e.Cut = marks.Trimmed()
	rows, err = q.QueryContext(ctx, "SELECT seq, body, reply FROM record WHERE entity = ? ORDER BY seq", id)
	err = scan(rows, err, func(rows *sql.Rows) error {
		var seq int64
		var r journal.RawRecord
		if err := rows.Scan(&seq, &r.Body, &r.Reply); err != nil {
			return err
		}
		r.Seq, e.LastSeq = uint64(seq), uint64(seq)
		return e.Add(r)
	})
	if err != nil {
		return id, e, err
	}
	rows, err = q.QueryContext(ctx, "SELECT kind, name, seq, number, due, period FROM wake WHERE entity = ? ORDER BY kind, name", id)
	err = scan(rows, err, func(rows *sql.Rows) error {
		var w journal.RawWake
		var seq, number int64
		if err := rows.Scan(&w.Kind, &w.Name, &seq, &number, &w.Due, &w.Period); err != nil {
			return fmt.Errorf("%w: a wake-up of %s: %w", journal.ErrCorrupt, entity, err)
		}
		w.Seq, w.Number = uint64(seq), uint64(number)
		return e.AddWake(w)
	})
	if err != nil {
		return id, e, err
	}
	rows, err = q.QueryContext(ctx, "SELECT seq, done FROM send WHERE entity = ? ORDER BY seq", id)
	err = scan(rows, err, func(rows *sql.Rows) error {
		var s journal.RawSends
		var seq int64
		if err := rows.Scan(&seq, &s.States); err != nil {
			return fmt.Errorf("%w: sends of %s: %w", journal.ErrCorrupt, entity, err)
		}
		s.Seq = uint64(seq)
		return e.AddSends(s)
	})
	return id, e, err
}

// scan calls f for each row of a query.
func scan(rows *sql.Rows, err error, f func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Repair implements [journal.Repairer].
func (d *Backend) Repair(ctx context.Context, r *journal.Repair) (journal.RepairPlan, error) {
	t := &repairTx{tx: newTx(d), ctx: ctx}
	var plan journal.RepairPlan
	var refused error
	err := d.transact(ctx, func() error {
		if err := d.checkCache(); err != nil {
			return err
		}
		var err error
		if plan, err = journal.DecideRepair(r, t.now.Wall, t); errors.Is(err, journal.ErrRepair) || errors.Is(err, journal.ErrTooLarge) || errors.Is(err, journal.ErrCorrupt) {
			refused, err = err, errRefused
		}
		return err
	})
	if refused != nil {
		return plan, refused
	}
	if err == nil {
		t.cacheIDs()
	}
	return plan, err
}

// errRefused rolls a transaction back.
var errRefused = errors.New("the repair is refused")

// repairTx implements [journal.RepairTx].
type repairTx struct {
	*tx
	ctx context.Context
}

// Raw implements [journal.RepairTx].
func (t *repairTx) Raw(entity sharding.Entity) (journal.RawEntity, error) {
	_, e, err := readRaw(t.ctx, t.backend.conn, entity)
	return e, err
}

// Last implements [journal.RepairTx].
func (t *repairTx) Last(entity sharding.Entity) (uint64, error) {
	var h journal.Head
	_, _, err := t.readHead(entity, 0, &h)
	return h.LastSeq, err
}

// Decide implements [journal.RepairTx].
func (t *repairTx) Decide(ops []journal.Op) ([]journal.Result, error) {
	return journal.Decide(ops, t.tx)
}

// Apply implements [journal.RepairTx].
func (t *repairTx) Apply(entity sharding.Entity, p *journal.RepairPlan) error {
	id, err := t.id(entity)
	if err != nil {
		return err
	}
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = t.backend.conn.ExecContext(t.ctx, query, args...)
		}
	}
	for _, seq := range p.Expire {
		exec("DELETE FROM command WHERE entity = ? AND seq = ?", id, int64(seq))
	}
	if !p.Dropped.IsZero() {
		exec("UPDATE entity SET dropped = max(dropped, ?) WHERE id = ?", toMillis(p.Dropped), id)
	}
	for _, r := range p.Put {
		// A record that was missing is as old as the one before it.
		exec(`INSERT INTO record (entity, seq, age, writer, elapsed, body, reply)
			SELECT ?1, ?2, ifnull(max(p.age), 0), ifnull(p.writer, 0), ifnull(p.elapsed, 0), ?3, ?4 FROM record p WHERE p.entity = ?1 AND p.seq = (SELECT max(seq) FROM record WHERE entity = ?1 AND seq < ?2)
			ON CONFLICT DO UPDATE SET body = excluded.body, reply = excluded.reply`, id, int64(r.Seq), r.Body, r.Reply)
	}
	if p.SnapshotSeq > 0 {
		exec("DELETE FROM snapshot WHERE entity = ?", id)
		exec("UPDATE entity SET snapshot = 0 WHERE id = ?", id)
	}
	for _, w := range p.Wakes {
		exec("DELETE FROM wake WHERE entity = ? AND kind = ? AND name = ?", id, int(w.Kind), w.Name)
	}
	for _, s := range p.Sends {
		exec("DELETE FROM send WHERE entity = ? AND seq = ?", id, int64(s.Seq))
	}
	return err
}
