package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A page is read by an index that is in its order, from the position on. Among rows that are
// due at the same time, the entities' numbers decide.
const (
	wakesSQL = `SELECT w.entity, e.name, w.kind, w.name, w.seq, w.number, w.due, w.period
		FROM wake w JOIN entity e ON e.id = w.entity
		WHERE w.type = ?1 AND w.shard = ?2 AND (w.due, w.entity, w.kind, w.name) > (?3, ?4, ?5, ?6) AND w.due <= ?7
		ORDER BY w.due, w.entity, w.kind, w.name LIMIT ?8`
	sendsSQL = `SELECT s.entity, e.name, s.seq, s.done, ifnull((SELECT epoch FROM fence WHERE type = ?1 AND shard = ?2), 0)
		FROM send s JOIN entity e ON e.id = s.entity
		WHERE s.type = ?1 AND s.shard = ?2 AND (s.entity, s.seq) > (?3, ?4) AND s.pending > 0
		ORDER BY s.entity, s.seq LIMIT ?5`
	deadSQL = `SELECT s.entity, e.name, s.seq, s.done, ifnull((SELECT epoch FROM fence WHERE type = ?1 AND shard = ?2), 0)
		FROM send s JOIN entity e ON e.id = s.entity
		WHERE s.type = ?1 AND s.shard = ?2 AND (s.entity, s.seq) > (?3, ?4) AND s.dead > 0
		ORDER BY s.entity, s.seq LIMIT ?5`
)

// Wakes implements [journal.Reader].
func (r *Reader) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	page, err := readPage(ctx, r, func(p *pager[journal.WakeEntry]) error {
		for _, s := range req.Shards {
			if p.full(s.Shard) {
				continue
			}
			found, err := wakesOf(p, &s, req.Last(), req.Limit)
			if err == nil {
				err = p.add(s.Shard, found, req.Limit, func(w *journal.WakeEntry, e journal.Entry, err error) {
					if w.Err = err; err == nil {
						w.SetInput(&e.Record)
					}
				})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return page, r.pageError("wake-ups", err)
}

// Sends implements [journal.Reader].
func (r *Reader) Sends(ctx context.Context, req journal.SendsRequest) (journal.SendsPage, error) {
	page, err := readPage(ctx, r, func(p *pager[journal.SendEntry]) error {
		for _, s := range req.Shards {
			if p.full(s.Shard) {
				continue
			}
			found, err := sendsOf(p, &s, req.Dead, req.Limit)
			if err == nil {
				err = p.add(s.Shard, found, req.Limit, func(row *journal.SendEntry, e journal.Entry, err error) {
					if row.Err = err; err == nil {
						row.SetSends(e.At, &e.Record)
					}
				})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return page, r.pageError("sends", err)
}

func (r *Reader) pageError(what string, err error) error {
	if damaged(err) {
		err = r.corrupt(err)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", what, err)
	}
	return err
}

// pager reads a page in one transaction.
type pager[R any] struct {
	ctx  context.Context
	r    *Reader
	t    *sql.Tx
	left int // bytes of records that may still be read
	page journal.Page[R]
	// The record that was read last: one turn often makes several rows.
	last  recordID
	entry journal.Entry
	err   error
}

type recordID struct {
	entity int64
	seq    uint64
}

// row is a row whose record has not been read.
type row[R any] struct {
	id     int64 // of the entity
	entity sharding.Entity
	seq    uint64 // of the record
	row    R
}

func readPage[R any](ctx context.Context, r *Reader, read func(*pager[R]) error) (journal.Page[R], error) {
	if err := r.place.check(); err != nil {
		return journal.Page[R]{}, err
	}
	t, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return journal.Page[R]{}, err
	}
	defer func() { _ = t.Rollback() }() // nothing to lose
	facts, err := queryOpened(ctx, t.StmtContext(ctx, r.stmts.opened))
	if err == nil {
		err = facts.CheckOpenedReader(r.generation)
	}
	if err != nil {
		return journal.Page[R]{}, err
	}
	p := pager[R]{ctx: ctx, r: r, t: t, left: r.pageBytes, page: journal.Page[R]{Now: time.Now()}}
	if err := read(&p); err != nil {
		return journal.Page[R]{}, err
	}
	return p.page, nil
}

// full reports whether no more records may be read. The shard then waits for another page.
func (p *pager[R]) full(shard sharding.ShardID) bool {
	if p.left <= 0 {
		p.page.More = append(p.page.More, shard)
	}
	return p.left <= 0
}

// add adds the first rows of a shard.
func (p *pager[R]) add(shard sharding.ShardID, rows []row[R], limit int, complete func(*R, journal.Entry, error)) error {
	for i := range rows {
		x := &rows[i]
		if i == limit || p.left <= 0 {
			p.page.More = append(p.page.More, shard)
			return nil
		}
		if err := p.record(x.id, x.entity, x.seq); err != nil {
			return err
		}
		complete(&x.row, p.entry, p.err)
		p.page.Entries = append(p.page.Entries, x.row)
	}
	return nil
}

// record reads a record into p.entry, or says in p.err why it cannot be read.
func (p *pager[R]) record(id int64, entity sharding.Entity, seq uint64) error {
	if p.last == (recordID{id, seq}) {
		return nil
	}
	p.last, p.entry, p.err = recordID{id, seq}, journal.Entry{}, nil
	var body []byte
	err := p.t.StmtContext(p.ctx, p.r.stmts.body).QueryRowContext(p.ctx, id, int64(seq)).Scan(&body)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		p.err = fmt.Errorf("%w: %s, record %d is missing", journal.ErrCorrupt, entity, seq)
	case damaged(err):
		p.err = fmt.Errorf("%w: %s, record %d: %w", journal.ErrCorrupt, entity, seq, err)
	case err != nil:
		return err
	default:
		p.left -= len(body)
		p.entry, p.err = journal.DecodeRecord(entity, seq, body)
	}
	return nil
}

// number returns the number of an entity. It returns 0 if there is none, so all entities come
// after it.
func (p *pager[R]) number(e sharding.Entity) (int64, error) {
	if e.ID == "" {
		return 0, nil
	}
	var id, snapshot, life, dropped, cut int64
	err := p.t.StmtContext(p.ctx, p.r.stmts.entity).QueryRowContext(p.ctx, string(e.Type), string(e.ID)).Scan(&id, &snapshot, &life, &dropped, &cut)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}

// wakesOf reads the rows of a shard, one more than the limit if there is one.
func wakesOf(p *pager[journal.WakeEntry], s *journal.ShardPosition, last int64, limit int) ([]row[journal.WakeEntry], error) {
	after, err := p.number(s.After.Entity)
	if err != nil {
		return nil, err
	}
	rows, err := p.t.StmtContext(p.ctx, p.r.stmts.wakes).QueryContext(p.ctx,
		string(s.Shard.Type), s.Shard.Index, s.After.Due, after, int(s.After.Kind), s.After.Name, last, limit+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []row[journal.WakeEntry]
	for rows.Next() {
		x := row[journal.WakeEntry]{entity: sharding.Entity{Type: s.Shard.Type}}
		w := &x.row
		var seq, number int64
		if err := rows.Scan(&x.id, &x.entity.ID, &w.Kind, &w.Name, &seq, &number, &w.Due, &w.Period); err != nil {
			return nil, fmt.Errorf("%w: a wake-up of shard %s: %w", journal.ErrCorrupt, s.Shard, err)
		}
		x.seq, w.Shard, w.Entity, w.Seq, w.Number = uint64(seq), s.Shard, x.entity, uint64(seq), uint64(number)
		found = append(found, x)
	}
	return found, rows.Err()
}

// sendsOf is wakesOf for sends.
func sendsOf(p *pager[journal.SendEntry], s *journal.SendPosition, dead bool, limit int) ([]row[journal.SendEntry], error) {
	after, err := p.number(s.Entity)
	if err != nil {
		return nil, err
	}
	stmt := p.r.stmts.sends
	if dead {
		stmt = p.r.stmts.dead
	}
	rows, err := p.t.StmtContext(p.ctx, stmt).QueryContext(p.ctx, string(s.Shard.Type), s.Shard.Index, after, int64(s.Seq), limit+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []row[journal.SendEntry]
	for rows.Next() {
		x := row[journal.SendEntry]{entity: sharding.Entity{Type: s.Shard.Type}}
		var seq, epoch int64
		if err := rows.Scan(&x.id, &x.entity.ID, &seq, &x.row.States, &epoch); err != nil {
			return nil, fmt.Errorf("%w: sends of shard %s: %w", journal.ErrCorrupt, s.Shard, err)
		}
		x.seq, x.row.Shard, x.row.Entity, x.row.Seq = uint64(seq), s.Shard, x.entity, uint64(seq)
		x.row.Epoch = sharding.Epoch(epoch)
		found = append(found, x)
	}
	return found, rows.Err()
}
