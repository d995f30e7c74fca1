package postgres

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
)

// columnsSQL names the columns of all tables of a journal, in an order that lasts.
const columnsSQL = `SELECT c.relname::text, a.attname::text FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
	WHERE n.nspname = 'roost' AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
	ORDER BY c.relname, a.attnum`

// table is a table of the schema, with its columns.
type table struct {
	name    string
	columns []string
}

// String is "name(column,column)", as a part of a backup is called.
func (t table) String() string { return t.name + "(" + strings.Join(t.columns, ",") + ")" }

// sql is the table with its columns in SQL.
func (t table) sql() string {
	quoted := make([]string, len(t.columns))
	for i, c := range t.columns {
		quoted[i] = pgx.Identifier{c}.Sanitize()
	}
	return pgx.Identifier{"roost", t.name}.Sanitize() + " (" + strings.Join(quoted, ", ") + ")"
}

func readTables(ctx context.Context, tx pgx.Tx) ([]table, error) {
	rows, err := tx.Query(ctx, columnsSQL)
	if err != nil {
		return nil, err
	}
	var tables []table
	var name, column string
	_, err = pgx.ForEachRow(rows, []any{&name, &column}, func() error {
		if len(tables) == 0 || tables[len(tables)-1].name != name {
			tables = append(tables, table{name: name})
		}
		last := &tables[len(tables)-1]
		last.columns = append(last.columns, column)
		return nil
	})
	return tables, err
}

// Backup writes a backup of a journal to out, beside the processes that use it: all tables, in
// PostgreSQL's binary format, as one transaction sees them. The role needs no right but to read
// (roost_reader). progress is called with how many bytes were written, and about how many there are
// in all.
func Backup(ctx context.Context, connection string, cfg journal.Config, out io.Writer, progress func(done, total int64)) (h backup.Header, err error) {
	err = alone(ctx, connection, cfg, func(conn *pgx.Conn) error {
		if err := readable(ctx, conn); err != nil {
			return err
		}
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
			h, err = writeBackup(ctx, tx, out, progress)
			return err
		})
	})
	return h, err
}

func writeBackup(ctx context.Context, tx pgx.Tx, out io.Writer, progress func(done, total int64)) (backup.Header, error) {
	h := backup.Header{Store: backup.Postgres}
	var total int64
	// The first statement begins the moment that the transaction sees, and now() is before it.
	err := tx.QueryRow(ctx, `SELECT now(), coalesce(sum(pg_catalog.pg_table_size(c.oid)), 0)::bigint
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'roost' AND c.relkind = 'r'`).Scan(&h.Taken, &total)
	if err != nil {
		return h, err
	}
	if h.Facts, err = readFacts(ctx, tx.Conn(), epochsSQL); err != nil {
		return h, err
	}
	tables, err := readTables(ctx, tx)
	if err != nil {
		return h, err
	}
	w, err := backup.NewWriter(out, h)
	if err != nil {
		return h, err
	}
	counted := &counter{w: w, total: total, progress: progress}
	for _, t := range tables {
		if err := w.Part(t.String()); err != nil {
			return h, err
		}
		if _, err := tx.Conn().PgConn().CopyTo(ctx, counted, "COPY "+t.sql()+" TO STDOUT (FORMAT binary)"); err != nil {
			return h, fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	return h, w.Close()
}

// counter passes on what is written, and says how much.
type counter struct {
	w           io.Writer
	done, total int64
	progress    func(done, total int64)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.done += int64(n)
	c.progress(c.done, max(c.done, c.total))
	return n, err
}

// alone connects for work that takes as long as it takes.
func alone(ctx context.Context, connection string, cfg journal.Config, f func(*pgx.Conn) error) error {
	parsed, err := pgxpool.ParseConfig(connection)
	if err != nil {
		return err // it holds no password
	}
	parsed.ConnConfig.DialFunc = dialer(parsed.ConnConfig.ConnectTimeout, cfg.CommitTimeout)
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		parsed.ConnConfig.RuntimeParams[name] = "0"
	}
	connecting, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	conn, err := pgx.ConnectConfig(connecting, parsed.ConnConfig.Copy())
	cancel()
	if err == nil {
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		err = f(conn)
	}
	if state(err) == stateForbidden {
		err = fmt.Errorf("%w; a backup needs the role roost_reader, and a restore the role that owns the schema roost", err)
	}
	if err != nil {
		return openError(parsed, err)
	}
	return nil
}
