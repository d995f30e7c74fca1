package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// marks holds the newest write of this process that is known to be durable. The commits of a server are durable in
// their order, so if this one is still stored, all earlier ones of the process are, too. Each new connection looks for
// it: after the promotion of an asynchronous standby, or when an older copy of the database was put in place, the
// server may lack it.
type marks struct {
	mu     sync.Mutex
	newest mark // zero: none
}

// mark is a claim or, with an entity, an append.
type mark struct {
	shard  sharding.ShardID
	epoch  sharding.Epoch
	entity sharding.Entity
	seq    uint64 // of the entity's last record; 0: a claim
}

// note takes the results of a commit.
func (m *marks) note(ops []journal.Op, results []journal.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range ops {
		if results[i].Verdict != sharding.Durable {
			continue
		}
		switch op := &ops[i]; {
		case op.Claim != nil:
			m.newest = mark{shard: op.Claim.Shard, epoch: op.Claim.Epoch}
		case op.Append != nil && len(op.Append.Records) > 0:
			a := op.Append
			m.newest = mark{shard: a.Shard, epoch: a.Epoch, entity: a.Entity, seq: a.Records[len(a.Records)-1].Seq}
		case op.Purge != nil:
			m.newest.purged(op.Purge.Entity)
		}
	}
}

// begin takes operations that are about to be committed. If the outcome stays unknown, a purge may have removed its entity.
func (m *marks) begin(ops []journal.Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range ops {
		if p := ops[i].Purge; p != nil {
			m.newest.purged(p.Entity)
		}
	}
}

// purged leaves of the mark what stands if an entity was removed: the fence.
func (k *mark) purged(e sharding.Entity) {
	if k.entity == e {
		k.entity, k.seq = sharding.Entity{}, 0
	}
}

// markSQL reads the current values for a mark: the generation, the epoch of the fence, and the sequence number of the
// entity's last record.
const markSQL = `SELECT m.generation, coalesce((SELECT f.epoch FROM roost.fence f WHERE f.type = $1 AND f.shard = $2), 0),
	coalesce((SELECT x.last FROM roost.entity x WHERE x.type = $3 AND x.name = $4), 0)
	FROM roost.meta m WHERE m.one`

// check refuses a server that lacks the newest write. This process still remembers the lost data, and fences have gone
// back too: one that this process held before may be its own again. So the process must stop, and start again from the
// stored data.
func (m *marks) check(ctx context.Context, conn *pgx.Conn, opened sharding.Generation) error {
	m.mu.Lock()
	k := m.newest
	m.mu.Unlock()
	if k.epoch == 0 { //mutant:true journal-went-back
		return nil
	}
	var generation, epoch, last int64
	if err := conn.QueryRow(ctx, markSQL, pgx.QueryExecModeExec, string(k.shard.Type), int64(k.shard.Index), string(k.entity.Type), []byte(k.entity.ID)).
		Scan(&generation, &epoch, &last); err != nil {
		// A damaged page says nothing about the stored data. If it refused the connection, one page would stop the
		// whole journal.
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && (pg.Code == stateDataCorrupt || pg.Code == stateIndexCorrupt) {
			return nil
		}
		return err
	}
	fence := sharding.Epoch(epoch)
	switch {
	case sharding.Generation(generation) != opened:
		return nil // a restored journal, which the next commit refuses
	case fence < k.epoch:
		return fmt.Errorf("%w: the claim of shard %s at epoch %s, which was durable, is not stored any more: the fence is at %s; %s", errWentBack, k.shard, k.epoch, fence, backAdvice)
	case fence > k.epoch:
		return nil // another process continues with the shard: it may have removed the entity
	case uint64(last) < k.seq:
		return fmt.Errorf("%w: record %d of %s, which was durable, is not stored any more: its last one is %d; %s", errWentBack, k.seq, k.entity, last, backAdvice)
	}
	return nil
}

// errWentBack is the error of a journal that lacks what this process has stored.
var errWentBack = fmt.Errorf("%w: the journal went back", journal.ErrBroken)

const backAdvice = "a standby that lagged was promoted, or an older copy of the database was put in place, so acknowledged writes are lost; " +
	"use synchronous replication, and after a recovery \"roost journal backup\" and \"roost journal restore --replace\" (docs/running/backup.md)"
