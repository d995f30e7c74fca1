package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// trimmableSQL reads the records that a trim looks at, and why they are needed. The body comes
// only with those that have not lost their events, and may have to keep something.
const (
	marksSQL = `SELECT x.id, x.type, x.name, x.last, x.life, x.cut, x.stripped, x.swept
		FROM unnest($1::text[], $2::bytea[]) AS u (type, name) JOIN roost.entity x ON x.type = ANY (ARRAY[u.type]) AND x.name = u.name`
	trimmableSQL = `
	SELECT t.seq, t.remembered, t.sending, t.waking, CASE WHEN $5 AND (t.remembered OR t.sending OR t.waking) THEN t.body END
	FROM (SELECT r.seq, r.command IS NOT NULL AND (r.at IS NULL OR r.seq > e.trimmed) AS remembered,
			EXISTS (SELECT FROM roost.send s WHERE s.entity = ANY (ARRAY[r.entity]) AND s.seq = r.seq) AS sending,
			(SELECT true FROM roost.wake w WHERE w.entity = ANY (ARRAY[r.entity]) AND w.seq = r.seq ORDER BY w.entity, w.kind, w.name LIMIT 1) IS NOT NULL AS waking, r.body
		FROM roost.entity e JOIN roost.record r ON r.entity = e.id
		WHERE e.id = $1 AND r.seq > $2 AND r.seq <= $3 ORDER BY r.seq LIMIT $4) t`
	trimSQL = "SELECT roost.trim_records($1, $2, $3, $4, $5, $6, $7)"
)

// trims are the arguments of roost.trim_records.
type trims struct {
	ids, stripped, swept []int64
	of, seqs             []int64
	bodies               [][]byte
}

// trimEvents removes events that the snapshots of a batch have made superfluous. The snapshots
// are durable, so it may come after them, and needs no fence: why a record is needed only ever
// ends. What fails is done with the next snapshot.
func (d *Backend) trimEvents(ctx context.Context, ops []journal.Op, results []journal.Result) {
	var types []string
	var names [][]byte
	for i := range ops {
		if s := ops[i].Snapshot; s != nil && s.Cut > 0 && results[i].Verdict == sharding.Durable {
			types, names = append(types, string(s.Entity.Type)), append(names, []byte(s.Entity.ID))
		}
	}
	if len(types) == 0 {
		return
	}
	all := trims{ids: []int64{}, stripped: []int64{}, swept: []int64{}, of: []int64{}, seqs: []int64{}, bodies: [][]byte{}}
	rows, err := d.reads.pool.Query(ctx, marksSQL, types, names)
	if err != nil {
		return
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t trimming, err error) {
		var name []byte
		var last, life, cut, stripped, swept int64
		err = row.Scan(&t.id, &t.entity.Type, &name, &last, &life, &cut, &stripped, &swept)
		t.entity.ID = sharding.EntityID(name)
		t.marks = journal.TrimMarks{Life: uint64(life), Last: uint64(last), Cut: uint64(cut), Stripped: uint64(stripped), Swept: uint64(swept)}
		return t, err
	})
	for i := 0; i < len(found) && err == nil; i++ {
		if !slices.Contains(all.ids, found[i].id) { // two snapshots of one entity
			found[i].d, found[i].out = d, &all
			err = found[i].decide(ctx)
		}
	}
	if err != nil {
		return
	}
	_ = d.write(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, trimSQL, int64(d.generation), all.ids, all.stripped, all.swept, all.of, all.seqs, all.bodies)
		return err
	})
}

// trimming is one trim of an entity.
type trimming struct {
	d      *Backend
	id     int64
	entity sharding.Entity
	marks  journal.TrimMarks
	out    *trims
}

func (t *trimming) decide(ctx context.Context) error {
	after, last := t.marks.Fresh()
	fresh, stripped, err := t.visit(ctx, after, last, journal.MaxTrim, true)
	if err != nil {
		return err
	}
	after, last, limit := t.marks.Sweep(fresh)
	sweep, swept, err := t.visit(ctx, after, last, limit, false)
	if err != nil {
		return err
	}
	m := t.marks.Done(fresh, stripped, sweep, limit, swept)
	t.out.ids, t.out.stripped, t.out.swept = append(t.out.ids, t.id), append(t.out.stripped, int64(m.Stripped)), append(t.out.swept, int64(m.Swept))
	return nil
}

// visit decides about the records after one up to another. events: they have not lost them.
func (t *trimming) visit(ctx context.Context, after, last uint64, limit int, events bool) (n int, end uint64, err error) {
	if end = after; after >= last {
		return 0, end, nil
	}
	rows, err := t.d.reads.pool.Query(ctx, trimmableSQL, t.id, int64(after), int64(last), limit, events)
	if err != nil {
		return 0, end, err
	}
	var seq int64
	var needed journal.Needed
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &needed.Remembered, &needed.Sending, &needed.Waking, &body}, func() error {
		n, end = n+1, uint64(seq)
		act := t.marks.Trim(end, events, needed)
		if act == journal.LeaveRecord {
			return nil
		}
		var left []byte
		if act == journal.StripRecord {
			e, err := journal.DecodeRecord(t.entity, end, body)
			if err != nil || len(e.Record.Events) == 0 {
				return nil // damaged: it stays as it is
			}
			e.Record.Events = nil
			left = journal.AppendRecord(nil, t.entity, e.Epoch, e.At, &e.Record)
		}
		t.out.of, t.out.seqs, t.out.bodies = append(t.out.of, t.id), append(t.out.seqs, seq), append(t.out.bodies, left)
		return nil
	})
	return n, end, err
}
