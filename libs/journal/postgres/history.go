package postgres

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// historySQL reads the head of an entity, one record more than are wanted, the newest first, and what
// CheckOpenedReader needs. A record behind as many bytes as are wanted comes without its body: that
// there is one is enough.
const historySQL = `
	SELECT 0, e.last, e.snapshot, e.life, e.cut, NULL::bytea, coalesce((SELECT octet_length(s.body) FROM roost.snapshot s WHERE s.entity = e.id), 0)
		FROM roost.entity e WHERE e.type = $1 AND e.name = $2
	UNION ALL
	SELECT 1, x.seq, 0, 0, 0, CASE WHEN x.before < $5 THEN x.body END, 0
		FROM (SELECT r.seq, r.body, sum(octet_length(r.body)) OVER (ORDER BY r.seq DESC) - octet_length(r.body) AS before FROM
			(SELECT h.seq, h.body FROM roost.entity e CROSS JOIN LATERAL (SELECT y.seq, y.body FROM roost.record y
				WHERE y.entity = e.id AND y.seq < $3 ORDER BY y.seq DESC LIMIT $4) h
			WHERE e.type = $1 AND e.name = $2) r) x
	UNION ALL
	SELECT 2, m.generation, m.min_reader, 0, 0, NULL, 0 FROM roost.meta m WHERE m.one
	ORDER BY 1, 2 DESC`

// History implements [journal.Reader].
func (r *Reader) History(ctx context.Context, req journal.HistoryRequest) (journal.History, error) {
	var out journal.History
	before := int64(math.MaxInt64)
	if req.Before > 0 {
		before = int64(min(req.Before, math.MaxInt64))
	}
	rows, err := r.pool.Query(ctx, historyName, string(req.Entity.Type), []byte(req.Entity.ID), before, req.Limit+1, req.Bytes)
	var opened journal.Facts
	if err == nil {
		var kind, size int
		var seq, snapshot, life, cut int64
		var form []byte
		_, err = pgx.ForEachRow(rows, []any{&kind, &seq, &snapshot, &life, &cut, &form, &size}, func() error {
			switch kind {
			case 0:
				marks := journal.TrimMarks{Life: uint64(life), Cut: uint64(cut)}
				out.LastSeq, out.Life, out.Cut, out.SnapshotSeq, out.SnapshotBytes = uint64(seq), uint64(life), marks.Trimmed(), uint64(snapshot), size
			case 1:
				out.AddBody(&req, uint64(seq), form)
			case 2:
				opened = journal.Facts{Generation: sharding.Generation(seq), MinReader: int(snapshot)}
			}
			return nil
		})
	}
	if err != nil {
		err = r.explain(err)
	} else {
		err = opened.CheckOpenedReader(r.generation)
	}
	if err != nil {
		return journal.History{}, fmt.Errorf("read the records of %s: %w", req.Entity, err)
	}
	return out, nil
}
