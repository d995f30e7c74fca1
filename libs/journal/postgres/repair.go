package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Raw implements [journal.RawReader].
func (r *Reader) Raw(ctx context.Context, entity sharding.Entity) (journal.RawEntity, error) {
	var out journal.RawEntity
	conn, err := r.pool.Acquire(ctx)
	if err == nil {
		defer conn.Release()
		// One moment for all statements.
		err = pgx.BeginTxFunc(ctx, conn.Conn(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			facts, err := readFacts(ctx, tx.Conn(), factsName)
			if err == nil {
				err = facts.CheckOpenedReader(r.generation)
			}
			if err == nil {
				_, out, err = readRaw(ctx, tx, entity, "")
			}
			return err
		})
	}
	if err != nil {
		return journal.RawEntity{}, fmt.Errorf("read the stored data of %s: %w", entity, r.explain(err))
	}
	return out, nil
}

// Raw implements [journal.RawReader].
func (d *Backend) Raw(ctx context.Context, entity sharding.Entity) (journal.RawEntity, error) {
	return d.reads.Raw(ctx, entity)
}

// readRaw reads the stored data of an entity, and its number. lock is appended to the statement that reads
// its row.
func readRaw(ctx context.Context, tx pgx.Tx, entity sharding.Entity, lock string) (id int64, e journal.RawEntity, err error) {
	e.Entity = entity
	var last, snapshot, life, cut int64
	err = tx.QueryRow(ctx, "SELECT x.id, x.last, x.snapshot, x.life, x.cut FROM roost.entity x WHERE x.type = $1 AND x.name = $2 "+lock, string(entity.Type), []byte(entity.ID)).
		Scan(&id, &last, &snapshot, &life, &cut)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, e, nil
	}
	if err == nil && snapshot != 0 {
		if err = tx.QueryRow(ctx, "SELECT body FROM roost.snapshot WHERE entity = $1", id).Scan(&e.Snapshot); errors.Is(err, pgx.ErrNoRows) {
			err = nil // which is damage, and not an error here
		}
	}
	if err != nil {
		return id, e, err
	}
	e.LastSeq, e.SnapshotSeq, e.Life = uint64(last), uint64(snapshot), uint64(life)
	marks := journal.TrimMarks{Life: e.Life, Cut: uint64(cut)}
	e.Cut = marks.Trimmed()
	var seq int64
	var body, reply []byte
	rows, err := tx.Query(ctx, "SELECT seq, body, reply FROM roost.record WHERE entity = $1 ORDER BY seq", id)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&seq, &body, &reply}, func() error {
			r := journal.RawRecord{Seq: uint64(seq), Body: body, Reply: reply}
			body, reply = nil, nil
			return e.Add(r)
		})
	}
	if err != nil {
		return id, e, err
	}
	rows, err = tx.Query(ctx, "SELECT kind, name, seq, number, due, period FROM roost.wake WHERE entity = $1 ORDER BY kind, name", id)
	if err == nil {
		var kind int16
		var name []byte
		var number, due, period int64
		_, err = pgx.ForEachRow(rows, []any{&kind, &name, &seq, &number, &due, &period}, func() error {
			return e.AddWake(journal.RawWake{WakeRef: sharding.WakeRef{Kind: sharding.WakeKind(kind), Name: string(name), Seq: uint64(seq), Number: uint64(number)}, Due: due, Period: period})
		})
	}
	if err != nil {
		return id, e, err
	}
	rows, err = tx.Query(ctx, "SELECT seq, done FROM roost.send WHERE entity = $1 ORDER BY seq", id)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&seq, &body}, func() error {
			s := journal.RawSends{Seq: uint64(seq), States: body}
			body = nil
			return e.AddSends(s)
		})
	}
	return id, e, err
}

// Repair implements [journal.Repairer]. It needs the role that owns the schema.
func (d *Backend) Repair(ctx context.Context, r *journal.Repair) (journal.RepairPlan, error) {
	var plan journal.RepairPlan
	var refused error
	err := d.write(ctx, func(conn *pgx.Conn) error {
		err := transact(ctx, conn, func(tx pgx.Tx) error {
			now := d.clock.Now()
			t := &repairTx{ctx: ctx, d: d, tx: tx, now: now}
			var err error
			plan, err = journal.DecideRepair(r, now.Wall, t)
			return err
		})
		if errors.Is(err, journal.ErrRepair) || errors.Is(err, journal.ErrTooLarge) {
			refused, err = err, nil // and rolled back
		}
		return err
	})
	if refused != nil {
		return plan, refused
	}
	if state(err) == stateForbidden {
		err = fmt.Errorf("%w; run this as the role that owns the schema roost", err)
	}
	return plan, err
}

// repairTx implements [journal.RepairTx].
type repairTx struct {
	ctx context.Context
	d   *Backend
	tx  pgx.Tx
	now journal.Moment
}

// Fence implements [journal.RepairTx]. A process that writes under the fence waits until the
// transaction ends.
func (t *repairTx) Fence(shard sharding.ShardID) (sharding.Fence, error) {
	var epoch, owner int64
	err := t.tx.QueryRow(t.ctx, "SELECT f.epoch, f.owner FROM roost.fence f WHERE f.type = $1 AND f.shard = $2 FOR UPDATE", string(shard.Type), int64(shard.Index)).Scan(&epoch, &owner)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return sharding.Fence{Epoch: sharding.Epoch(epoch), Owner: sharding.NodeUID(owner)}, err
}

// Raw implements [journal.RepairTx].
func (t *repairTx) Raw(entity sharding.Entity) (journal.RawEntity, error) {
	_, e, err := readRaw(t.ctx, t.tx, entity, "FOR UPDATE OF x")
	return e, err
}

// Last implements [journal.RepairTx].
func (t *repairTx) Last(entity sharding.Entity) (last uint64, err error) {
	var seq int64
	err = t.tx.QueryRow(t.ctx, "SELECT x.last FROM roost.entity x WHERE x.type = $1 AND x.name = $2 FOR UPDATE OF x", string(entity.Type), []byte(entity.ID)).Scan(&seq)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return uint64(seq), err
}

// Decide implements [journal.RepairTx].
func (t *repairTx) Decide(ops []journal.Op) ([]journal.Result, error) {
	return t.d.decided(t.tx.QueryRow(t.ctx, commitName, t.d.commitArgs(ops, t.now)...), ops)
}

// Apply implements [journal.RepairTx].
func (t *repairTx) Apply(entity sharding.Entity, p *journal.RepairPlan) error {
	var id int64
	if err := t.tx.QueryRow(t.ctx, "SELECT id FROM roost.entity WHERE type = $1 AND name = $2", string(entity.Type), []byte(entity.ID)).Scan(&id); err != nil {
		return err
	}
	var b pgx.Batch
	if len(p.Expire) > 0 {
		expire := make([]int64, len(p.Expire))
		for i, seq := range p.Expire {
			expire[i] = int64(seq)
		}
		b.Queue(`UPDATE roost.entity x SET keys = x.keys - (SELECT count(*) FROM roost.record r
			WHERE r.entity = x.id AND r.seq = ANY ($2::bigint[]) AND r.command IS NOT NULL AND r.at IS NOT NULL AND r.seq > x.trimmed) WHERE x.id = $1`, id, expire)
		b.Queue("UPDATE roost.record SET command = NULL, time = NULL, at = NULL WHERE entity = $1 AND seq = ANY ($2::bigint[])", id, expire)
	}
	if !p.Dropped.IsZero() {
		b.Queue("UPDATE roost.entity SET dropped = greatest(dropped, $2) WHERE id = $1", id, p.Dropped.UnixMilli())
	}
	for _, r := range p.Put {
		b.Queue(`INSERT INTO roost.record (entity, seq, body, reply) VALUES ($1, $2, $3, $4)
			ON CONFLICT (entity, seq) DO UPDATE SET body = excluded.body, reply = excluded.reply`, id, int64(r.Seq), r.Body, r.Reply)
	}
	if p.SnapshotSeq > 0 {
		b.Queue("DELETE FROM roost.snapshot WHERE entity = $1", id)
		b.Queue("UPDATE roost.entity SET snapshot = 0 WHERE id = $1", id)
	}
	for _, w := range p.Wakes {
		b.Queue("DELETE FROM roost.wake WHERE entity = $1 AND kind = $2 AND name = $3", id, int16(w.Kind), []byte(w.Name))
	}
	for _, s := range p.Sends {
		b.Queue("DELETE FROM roost.send WHERE entity = $1 AND seq = $2", id, int64(s.Seq))
	}
	if b.Len() == 0 {
		return nil
	}
	return t.tx.SendBatch(t.ctx, &b).Close()
}
