package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roost-cluster/roost/libs/journal/postgres/pgsession"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

// statements are the SQL statements for a table, the same for SQLite and PostgreSQL.
type statements struct{ create, read, insert, update string }

func statementsOf(table string) statements {
	return statements{
		create: `CREATE TABLE IF NOT EXISTS ` + table + ` (
	name    TEXT   PRIMARY KEY,
	version BIGINT NOT NULL,
	term    BIGINT NOT NULL,
	addr    TEXT   NOT NULL,
	uid     BIGINT NOT NULL,
	ttl_ns  BIGINT NOT NULL,
	nonce   BIGINT NOT NULL,
	cluster BIGINT NOT NULL
)`,
		read: `SELECT version, term, addr, uid, ttl_ns, nonce, cluster FROM ` + table + ` WHERE name = $1`,
		insert: `INSERT INTO ` + table + ` (name, version, term, addr, uid, ttl_ns, nonce, cluster)
	VALUES ($1, 1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING`,
		// The condition is the same as in [lease.Record.Yields].
		update: `UPDATE ` + table + ` SET version = version + 1, term = $2, addr = $3, uid = $4, ttl_ns = $5, nonce = $6, cluster = $7
	WHERE name = $1 AND version = $8 AND nonce = $9 AND term <= $2`,
	}
}

// opTimeout bounds a request, including the wait for a connection. A connection that does
// not respond in that time is closed.
const opTimeout = 5 * time.Second

// Backend is a [lease.Backend] in a SQL database.
type Backend struct {
	db      *sql.DB
	stmts   statements
	where   string                        // for error messages
	warning atomic.Pointer[pgconn.Notice] // the last one of a PostgreSQL server that is [pgsession.Doubtful]
}

// Get reads the record.
func (d *Backend) Get(ctx context.Context, name string) (lease.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var version, term, uid, ttl, nonce, cluster int64
	var addr string
	err := d.db.QueryRowContext(ctx, d.stmts.read, name).Scan(&version, &term, &addr, &uid, &ttl, &nonce, &cluster)
	if errors.Is(err, sql.ErrNoRows) {
		return lease.Record{}, nil
	}
	if err != nil {
		return lease.Record{}, fmt.Errorf("%w: get %s lease %q: %w", lease.ErrStore, d.where, name, pgsession.Pooled(err))
	}
	if version < 1 || term < 0 || term > math.MaxUint32 {
		return lease.Record{}, fmt.Errorf("%w: get %s lease %q: version %d or term %d is out of range; the row was not written by us",
			lease.ErrStore, d.where, name, version, term)
	}
	return lease.Record{
		Version: uint64(version),
		Term:    sharding.Term(term),
		Holder:  sharding.NodeID{Addr: addr, UID: sharding.NodeUID(uid)},
		TTL:     time.Duration(ttl),
		Nonce:   uint64(nonce),
		Cluster: sharding.ClusterID(cluster),
	}, nil
}

// Swap replaces the record if it yields. Unsigned 64-bit numbers are stored as the signed
// ones with the same bits.
func (d *Backend) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	if old.Version > math.MaxInt64-1 {
		return false, nil // no such version is ever stored
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	args := []any{name, int64(next.Term), next.Holder.Addr, int64(next.Holder.UID), int64(next.TTL), int64(next.Nonce), int64(next.Cluster)}
	query := d.stmts.insert
	if old.Version > 0 {
		query, args = d.stmts.update, append(args, int64(old.Version), int64(old.Nonce))
	}
	warning := d.warning.Load()
	res, err := d.db.ExecContext(ctx, query, args...)
	if err == nil {
		err = d.warned(warning)
	}
	if err != nil {
		return false, fmt.Errorf("%w: swap %s lease %q: %w", lease.ErrStore, d.where, name, pgsession.Pooled(err))
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("%w: swap %s lease %q: %w", lease.ErrStore, d.where, name, err)
	}
	return n == 1, nil
}

// Close closes the database.
func (d *Backend) Close() error { return d.db.Close() }
