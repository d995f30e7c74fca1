package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A page is read with two statements. The first one reads the rows of all shards, each by an
// index that is in the order of pages, from the position on, and in one more row the
// clock and what CheckOpenedReader needs. Among rows that are due at the same time, the entities' numbers
// decide. The second statement reads the records, which never change.
const (
	wakesSQL = `
	SELECT a.i, x.entity, e.name, x.kind, x.name, x.seq, x.number, x.due, x.period, 0
	FROM (SELECT u.i, u.type, u.shard, u.due, coalesce(p.id, 0) AS entity, u.kind::smallint AS kind, u.name
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::int[], $6::bytea[]) WITH ORDINALITY AS u (type, shard, due, id, kind, name, i)
		LEFT JOIN roost.entity p ON p.type = ANY (ARRAY[u.type]) AND p.name = u.id) a
	CROSS JOIN LATERAL (SELECT w.entity, w.kind, w.name, w.seq, w.number, w.due, w.period FROM roost.wake w
		WHERE w.type = a.type AND w.shard = a.shard AND (w.due, w.entity, w.kind, w.name) > (a.due, a.entity, a.kind, a.name) AND w.due <= $7
		ORDER BY w.due, w.entity, w.kind, w.name LIMIT $8) x
	JOIN roost.entity e ON e.id = ANY (ARRAY[x.entity])
	UNION ALL SELECT 0, m.generation, ''::bytea, 0, ''::bytea, 0, 0, floor(1000 * extract(epoch FROM now()))::bigint, 0, m.min_reader FROM roost.meta m WHERE m.one
	ORDER BY 1, 8, 2, 4, 5`
	sendsHead = `
	SELECT a.i, x.entity, e.name, x.seq, x.done, 0, (SELECT coalesce(max(f.epoch), 0) FROM roost.fence f WHERE f.type = a.type AND f.shard = a.shard)
	FROM (SELECT u.i, u.type, u.shard, coalesce(p.id, 0) AS entity, u.seq
		FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[]) WITH ORDINALITY AS u (type, shard, id, seq, i)
		LEFT JOIN roost.entity p ON p.type = ANY (ARRAY[u.type]) AND p.name = u.id) a
	CROSS JOIN LATERAL (SELECT s.entity, s.seq, s.done FROM roost.send s
		WHERE s.type = a.type AND s.shard = a.shard AND (s.entity, s.seq) > (a.entity, a.seq) AND `
	sendsTail = `
		ORDER BY s.entity, s.seq LIMIT $5) x
	JOIN roost.entity e ON e.id = ANY (ARRAY[x.entity])
	UNION ALL SELECT 0, m.generation, ''::bytea, floor(1000 * extract(epoch FROM now()))::bigint, ''::bytea, m.min_reader, 0 FROM roost.meta m WHERE m.one
	ORDER BY 1, 2, 4`
	// Each of these has the condition of an index.
	pendingSQL = sendsHead + "s.pending > 0" + sendsTail
	deadSQL    = sendsHead + "s.dead > 0" + sendsTail
	// bodiesSQL stops when what comes before has as many bytes as a page may have. The length
	// of a body is known without reading it.
	bodiesSQL = `
	SELECT b.body FROM (SELECT u.i, r.body, sum(octet_length(r.body)) OVER (ORDER BY u.i) - coalesce(octet_length(r.body), 0) AS before
		FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS u (entity, seq, i)
		LEFT JOIN roost.record r ON r.entity = ANY (ARRAY[u.entity]) AND r.seq = u.seq) b
	WHERE coalesce(b.before, 0) < $3 ORDER BY b.i`
)

// Wakes implements [journal.Reader].
func (r *Reader) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	n := len(req.Shards)
	types, numbers, due, after := make([]string, n), make([]int64, n), make([]int64, n), make([][]byte, n)
	kinds, names := make([]int32, n), make([][]byte, n)
	for i, s := range req.Shards {
		types[i], numbers[i], due[i], after[i] = string(s.Shard.Type), int64(s.Shard.Index), s.After.Due, []byte(s.After.Entity.ID)
		kinds[i], names[i] = int32(s.After.Kind), []byte(s.After.Name)
	}
	p := pager[journal.WakeEntry]{r: r, limit: req.Limit, complete: func(w *journal.WakeEntry, e journal.Entry, err error) {
		if w.Err = err; err == nil {
			w.SetInput(&e.Record)
		}
	}}
	rows, err := r.pool.Query(ctx, wakesName, types, numbers, due, after, kinds, names, req.Last(), req.Limit+1)
	if err == nil {
		var i, kind, lowest int
		var entity, seq, number, at, period int64
		var id, name []byte
		_, err = pgx.ForEachRow(rows, []any{&i, &entity, &id, &kind, &name, &seq, &number, &at, &period, &lowest}, func() error {
			if i == 0 {
				return p.head(sharding.Generation(entity), lowest, at)
			}
			shard := req.Shards[i-1].Shard
			of := sharding.Entity{Type: shard.Type, ID: sharding.EntityID(id)}
			ref := sharding.WakeRef{Kind: sharding.WakeKind(kind), Name: string(name), Seq: uint64(seq), Number: uint64(number)}
			p.row(shard, record{entity, seq}, of, journal.WakeEntry{Shard: shard, Entity: of, WakeRef: ref, Due: at, Period: period})
			return nil
		})
	}
	return p.finish(ctx, "wake-ups", err)
}

// Sends implements [journal.Reader].
func (r *Reader) Sends(ctx context.Context, req journal.SendsRequest) (journal.SendsPage, error) {
	n := len(req.Shards)
	types, numbers, after, seqs := make([]string, n), make([]int64, n), make([][]byte, n), make([]int64, n)
	for i, s := range req.Shards {
		types[i], numbers[i], after[i], seqs[i] = string(s.Shard.Type), int64(s.Shard.Index), []byte(s.Entity.ID), int64(s.Seq)
	}
	p := pager[journal.SendEntry]{r: r, limit: req.Limit, complete: func(s *journal.SendEntry, e journal.Entry, err error) {
		if s.Err = err; err == nil {
			s.SetSends(e.At, &e.Record)
		}
	}}
	name := pendingName
	if req.Dead {
		name = deadName
	}
	rows, err := r.pool.Query(ctx, name, types, numbers, after, seqs, req.Limit+1)
	if err == nil {
		var i, lowest int
		var entity, seq, epoch int64
		var id, done []byte
		_, err = pgx.ForEachRow(rows, []any{&i, &entity, &id, &seq, &done, &lowest, &epoch}, func() error {
			if i == 0 {
				return p.head(sharding.Generation(entity), lowest, seq)
			}
			shard := req.Shards[i-1].Shard
			of := sharding.Entity{Type: shard.Type, ID: sharding.EntityID(id)}
			p.row(shard, record{entity, seq}, of, journal.SendEntry{Shard: shard, Entity: of, Seq: uint64(seq), States: slices.Clone(done), Epoch: sharding.Epoch(epoch)})
			return nil
		})
	}
	return p.finish(ctx, "sends", err)
}

// record names a stored record.
type record struct{ entity, seq int64 }

// pager makes a page of rows.
type pager[R any] struct {
	r        *Reader
	limit    int // of each shard
	complete func(*R, journal.Entry, error)
	page     journal.Page[R]
	shards   []sharding.ShardID // of page.Entries, and
	places   []int              // the place of each one's record in these:
	records  []record
	owners   []sharding.Entity
	known    map[record]int
	count    int // rows of the last shard
}

// head takes what the page begins with.
func (p *pager[R]) head(generation sharding.Generation, lowest int, millis int64) error {
	p.page.Now = time.UnixMilli(millis)
	return journal.Facts{Generation: generation, MinReader: lowest}.CheckOpenedReader(p.r.generation)
}

// row takes a row, or the fact that there is one more than the limit.
func (p *pager[R]) row(shard sharding.ShardID, of record, owner sharding.Entity, row R) {
	if n := len(p.shards); n == 0 || p.shards[n-1] != shard {
		p.count = 0
	}
	if p.count++; p.count > p.limit {
		p.page.More = append(p.page.More, shard)
		return
	}
	place, ok := p.known[of]
	if !ok {
		if p.known == nil {
			p.known = map[record]int{}
		}
		place = len(p.records)
		p.known[of] = place
		p.records, p.owners = append(p.records, of), append(p.owners, owner)
	}
	p.page.Entries, p.shards, p.places = append(p.page.Entries, row), append(p.shards, shard), append(p.places, place)
}

// finish reads the records, and leaves out the rows whose records exceeded the page's size.
func (p *pager[R]) finish(ctx context.Context, what string, err error) (journal.Page[R], error) {
	var bodies []found
	if err == nil && len(p.records) > 0 {
		bodies, err = p.r.bodies(ctx, p.records)
	}
	if err != nil {
		return journal.Page[R]{}, fmt.Errorf("read %s: %w", what, p.r.explain(err))
	}
	entries := make([]journal.Entry, len(bodies))
	for i := range bodies {
		if b := &bodies[i]; b.err == nil {
			entries[i], b.err = journal.DecodeRecord(p.owners[i], uint64(p.records[i].seq), b.body)
		}
	}
	all := p.page.Entries
	p.page.Entries = all[:0]
	var cut sharding.ShardID
	for i := range all {
		place, shard := p.places[i], p.shards[i]
		switch {
		case shard == cut:
		case place >= len(bodies):
			if cut = shard; !slices.Contains(p.page.More, shard) {
				p.page.More = append(p.page.More, shard)
			}
		default:
			p.complete(&all[i], entries[place], bodies[place].err)
			p.page.Entries = append(p.page.Entries, all[i])
		}
	}
	return p.page, nil
}

// found is the stored form of a record, or why it cannot be read.
type found struct {
	body []byte
	err  error
}

// bodies reads the first ones of some records: as many as a page may have.
func (r *Reader) bodies(ctx context.Context, records []record) ([]found, error) {
	all, err := r.queryBodies(ctx, records, r.pageBytes)
	if !damaged(err) {
		return all, err
	}
	// One of them is on a damaged page: read each one separately.
	all = nil
	for i, left := 0, r.pageBytes; i < len(records) && left > 0; i++ {
		one, err := r.queryBodies(ctx, records[i:i+1], left)
		switch {
		case damaged(err):
			one = []found{{err: corrupt(err)}}
		case err != nil:
			return nil, err
		}
		all, left = append(all, one[0]), left-len(one[0].body)
	}
	return all, nil
}

func (r *Reader) queryBodies(ctx context.Context, records []record, most int) ([]found, error) {
	entities, seqs := make([]int64, len(records)), make([]int64, len(records))
	for i, x := range records {
		entities[i], seqs[i] = x.entity, x.seq
	}
	rows, err := r.pool.Query(ctx, bodiesName, entities, seqs, most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (f found, err error) {
		if err = row.Scan(&f.body); f.body == nil {
			f.err = fmt.Errorf("%w: the record is missing", journal.ErrCorrupt)
		}
		return f, err
	})
}
