package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// fencesSQL reads fences, and the generation, or 0 if this program does not know the format. A shard that was never
// claimed has epoch 0.
const fencesSQL = `
	SELECT CASE WHEN greatest(m.min_reader, m.min_writer) <= $1 THEN m.generation ELSE 0 END, r.epochs, r.owners
	FROM roost.meta m CROSS JOIN (
		SELECT array_agg(coalesce(f.epoch, 0) ORDER BY u.i) AS epochs, array_agg(coalesce(f.owner, 0) ORDER BY u.i) AS owners
		FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS u (type, shard, i)
		LEFT JOIN LATERAL (SELECT x.epoch, x.owner FROM roost.fence x WHERE x.type = u.type AND x.shard = u.shard LIMIT 1) f ON true) r
	WHERE m.one`

// onlyFences reports whether a batch only reads fences. Then a statement can do without commit_batch: it
// writes nothing and locks nothing, and no decision depends on another one.
func onlyFences(ops []journal.Op) bool {
	for i := range ops {
		if ops[i].Fence == nil {
			return false
		}
	}
	return true
}

// readFences decides a batch that only reads fences.
func (d *Backend) readFences(ctx context.Context, conn *pgx.Conn, ops []journal.Op) ([]journal.Result, error) {
	types, shards := make([]string, len(ops)), make([]int64, len(ops))
	for i := range ops {
		shard := ops[i].Fence.Shard
		types[i], shards[i] = string(shard.Type), int64(shard.Index)
	}
	var generation int64
	var epochs, owners []int64
	if err := conn.QueryRow(ctx, fencesName, journal.Format, types, shards).Scan(&generation, &epochs, &owners); err != nil {
		return nil, err
	}
	if sharding.Generation(generation) != d.generation {
		return nil, d.replaced(ctx, conn)
	}
	if len(epochs) != len(ops) || len(owners) != len(ops) {
		return nil, fmt.Errorf("%d fences for %d operations", len(epochs), len(ops))
	}
	results := make([]journal.Result, len(ops))
	for i := range ops {
		fence := sharding.Fence{Epoch: sharding.Epoch(epochs[i]), Owner: sharding.NodeUID(owners[i])}
		results[i] = journal.Result{Verdict: sharding.RefusedEpoch, Fence: fence}
		if fence.Epoch != 0 && fence.Epoch == ops[i].Fence.Epoch {
			results[i].Verdict = sharding.Durable
		}
	}
	return results, nil
}
