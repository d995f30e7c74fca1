package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Commit implements [journal.Backend], in one round trip.
func (b *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	now := b.watch.Now()
	args := newBatch(ops, now.Wall, &b.cfg).args(now, &b.cfg)
	var verdict []int32
	var epoch, owner []int64
	err := b.write(ctx, func(conn *pgx.Conn) error {
		// Scan returns after the server is ready for the next query, that is
		// after the commit: the row itself comes before it.
		return conn.QueryRow(ctx, commitName, args...).Scan(&verdict, &epoch, &owner)
	})
	if err != nil {
		return nil, err
	}
	if len(verdict) != len(ops) || len(epoch) != len(ops) || len(owner) != len(ops) {
		return nil, fmt.Errorf("%d verdicts for %d operations", len(verdict), len(ops))
	}
	results := make([]journal.Result, len(ops))
	for i, v := range verdict {
		if v < 1 || int(v) >= len(verdicts) {
			return nil, fmt.Errorf("unknown verdict %d", v)
		}
		results[i] = journal.Result{Verdict: verdicts[v], Fence: sharding.Fence{Epoch: sharding.Epoch(epoch[i]), Owner: sharding.NodeUID(owner[i])}}
	}
	return results, nil
}

// write runs f, which is one statement, on a connection that writes.
func (b *Backend) write(ctx context.Context, f func(*pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	conn, err := b.writes.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	defer conn.Release()
	if err := f(conn.Conn()); err != nil {
		if !contended(err) && !damaged(err) {
			leave(conn)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			b.writes.Reset() // what silenced one connection silenced others
		}
		return failed(err)
	}
	return nil
}

// leave closes a connection: the next one may lead to a server that is better
// off, such as the new primary.
func leave(conn *pgxpool.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no farewell to a server that may not listen
	_ = conn.Conn().Close(ctx)
}

// contended says that others were in the way, which is nobody's fault.
func contended(err error) bool {
	switch state(err) {
	case stateSerialization, stateDeadlock, stateUnique:
		return true
	}
	return false
}

// failed says what an error of a statement means for its transaction.
//
// An ERROR is sent instead of a commit. A FATAL ends the connection and may,
// however seldom, be sent after the commit and before its report.
func failed(err error) error {
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && e.SeverityUnlocalized != "ERROR":
		return err
	case e != nil && e.Code == stateDiskFull:
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	case damaged(err):
		return corrupt(err)
	case e != nil, pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	return err
}

// damaged reports whether an ERROR says that a page is not what was written, or
// cannot be read.
func damaged(err error) bool {
	switch state(err) {
	case stateDataCorrupt, stateIndexCorrupt, stateIO:
		return true
	}
	return false
}

// corrupt is an error about damage with what to do. The server's error names the
// page.
func corrupt(err error) error {
	return fmt.Errorf("%w: %w; look for the extent of it with pg_amcheck, rebuild an index with REINDEX, restore a table from a copy", journal.ErrCorrupt, err)
}
