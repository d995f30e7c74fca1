package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/pgsession"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Commit implements [journal.Backend], in one round trip, or in two if append_records fails or the journal is another one.
func (d *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	now := d.clock.Now()
	d.marks.begin(ops)
	var results []journal.Result
	err := d.write(ctx, func(conn *pgx.Conn) (err error) {
		if onlyFences(ops) {
			results, err = d.readFences(ctx, conn, ops)
			return err
		}
		if x := newAppends(ops, now.Wall, &d.cfg); x != nil {
			if results, err = d.commitAppends(ctx, conn, x, ops, now); !unexpected(err) {
				return err
			}
		}
		results, err = d.decided(conn.QueryRow(ctx, commitName, d.commitArgs(ops, now)...), ops)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.marks.note(ops, results)
	journal.StoredAt(results, ops, now.Wall)
	d.trimEvents(ctx, ops, results)
	return results, nil
}

// commitArgs are the arguments of commitSQL.
func (d *Backend) commitArgs(ops []journal.Op, now journal.Moment) []any {
	return append(d.opened(), newBatch(ops, now.Wall, &d.cfg).args(now, &d.cfg)...)
}

// opened are the first arguments of every statement that commits: the format that this program knows, and the
// generation that it has opened.
func (d *Backend) opened() []any { return []any{journal.Format, int64(d.generation)} }

// commitAppends commits a batch in which append_records takes x.
func (d *Backend) commitAppends(ctx context.Context, conn *pgx.Conn, x *appends, ops []journal.Op, now journal.Moment) ([]journal.Result, error) {
	results := make([]journal.Result, len(ops))
	args := append(d.opened(), x.args(now)...)
	if len(x.rest) == 0 {
		var generation int64
		if err := conn.QueryRow(ctx, appendName, args...).Scan(&generation); err != nil {
			return nil, err
		}
	} else {
		rest := make([]journal.Op, len(x.rest))
		for n, i := range x.rest {
			rest[n] = ops[i]
		}
		decided, err := d.decided(conn.QueryRow(ctx, bothName, append(args, newBatch(rest, now.Wall, &d.cfg).args(now, &d.cfg)...)...), rest)
		if err != nil {
			return nil, err
		}
		for n, i := range x.rest {
			results[i] = decided[n]
		}
	}
	for _, i := range x.ops {
		results[i] = journal.Result{Verdict: sharding.Durable}
	}
	return results, nil
}

// unexpected reports whether append_records has failed because something is to be refused, or may be: a command
// that its record has in common with another one has perhaps expired.
func unexpected(err error) bool {
	s := state(err)
	return s == stateUnexpected || s == stateUnique
}

// decided reads the verdicts about a batch.
func (d *Backend) decided(row pgx.Row, ops []journal.Op) ([]journal.Result, error) {
	var verdict []int32
	var epoch, owner []int64
	// Scan returns after the server is ready for the next query, that is
	// after the commit: the row itself comes before it.
	if err := row.Scan(&verdict, &epoch, &owner); err != nil {
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

// write runs f, which is one statement or one transaction, on a connection that writes.
func (d *Backend) write(ctx context.Context, f func(*pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	conn, err := d.writes.Acquire(ctx)
	if errors.Is(err, journal.ErrBroken) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, unreachable(pgsession.Pooled(err)))
	}
	defer conn.Release()
	expect(conn.Conn())
	err = f(conn.Conn())
	if err == nil { //mutant:false commit-warning
		err = warned(conn.Conn())
	}
	if err != nil {
		if state(err) == stateReplaced {
			return d.replaced(ctx, conn.Conn())
		}
		if !contended(err) && !damaged(err) {
			closeNow(conn)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			d.writes.Reset() // other connections are probably dead too
		}
		return classify(err)
	}
	return nil
}

// replaced returns why this handle must not be used any more, which it looks up.
func (d *Backend) replaced(ctx context.Context, conn *pgx.Conn) error {
	facts, err := readFacts(ctx, conn, factsName)
	if err == nil {
		err = facts.CheckOpened(d.generation)
	}
	if err == nil { // replaced again
		return fmt.Errorf("%w: the journal had another generation", journal.ErrNotCommitted)
	}
	return err
}

// closeNow closes a connection: the next one may lead to a healthier server, such as
// a new primary.
func closeNow(conn *pgxpool.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no goodbye: perhaps the server does not answer
	_ = conn.Conn().Close(ctx)
}

// contended reports whether a transaction failed because of concurrent ones.
func contended(err error) bool {
	switch state(err) {
	case stateSerialization, stateDeadlock, stateUnique:
		return true
	}
	return false
}

// classify wraps the error of a statement in what it means for the transaction.
//
// An ERROR is sent instead of a commit. A FATAL ends the connection and may, however
// rarely, be sent after the commit and before its confirmation.
func classify(err error) error {
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && e.SeverityUnlocalized != "ERROR":
		return err
	case e != nil && e.Code == stateDiskFull:
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	case damaged(err):
		return corrupt(err)
	case contended(err):
		return fmt.Errorf("%w: %w: %w", journal.ErrNotCommitted, journal.ErrContended, err)
	case e != nil, pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, pgsession.Pooled(err))
	}
	return err
}

// damaged reports whether an ERROR means that a page has wrong content, or cannot be read.
func damaged(err error) bool {
	switch state(err) {
	case stateDataCorrupt, stateIndexCorrupt, stateIO:
		return true
	}
	return false
}

// corrupt returns an error about damage that names the remedy. The server's error
// names the page.
func corrupt(err error) error {
	return fmt.Errorf("%w: %w; look for the extent of it with pg_amcheck, rebuild an index with REINDEX, restore a table from a copy", journal.ErrCorrupt, err)
}
