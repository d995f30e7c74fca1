package postgres

import (
	"context"
	"errors"
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

// snapshot is a journal at one moment.
type snapshot struct {
	conn   *pgx.Conn
	parsed *pgxpool.Config
	tx     pgx.Tx
	header backup.Header
	total  int64
}

// Snapshot begins a backup of a journal, while processes use it: of all tables, in PostgreSQL's
// binary format, as one transaction sees them. The role only needs the right to read
// (roost_reader).
func Snapshot(ctx context.Context, connection string, cfg journal.Config) (backup.Source, error) {
	conn, parsed, err := connectAlone(ctx, connection, cfg)
	if err != nil {
		return nil, err
	}
	s := &snapshot{conn: conn, parsed: parsed}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(aloneError("back up", parsed, err), s.Close())
	}
	return s, nil
}

func (s *snapshot) begin(ctx context.Context) (err error) {
	if err := readable(ctx, s.conn); err != nil {
		return err
	}
	if s.tx, err = s.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}); err != nil {
		return err
	}
	s.header = backup.Header{Store: backup.Postgres}
	// The first statement begins the moment that the transaction sees, and now() is before it.
	err = s.tx.QueryRow(ctx, `SELECT now(), coalesce(sum(pg_catalog.pg_table_size(c.oid)), 0)::bigint
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'roost' AND c.relkind = 'r'`).Scan(&s.header.Taken, &s.total)
	if err != nil {
		return err
	}
	s.header.Facts, err = readFacts(ctx, s.conn, epochsSQL)
	return err
}

// Header implements [backup.Source].
func (s *snapshot) Header() backup.Header { return s.header }

// Size implements [backup.Source].
func (s *snapshot) Size() int64 { return s.total }

// WriteParts implements [backup.Source].
func (s *snapshot) WriteParts(ctx context.Context, w *backup.Writer, progress func(done int64)) error {
	tables, err := readTables(ctx, s.tx)
	counted := &counter{w: w, progress: progress}
	for _, t := range tables {
		if err == nil {
			err = w.Part(t.String())
		}
		if err == nil {
			if _, err = s.conn.PgConn().CopyTo(ctx, counted, "COPY "+t.sql()+" TO STDOUT (FORMAT binary)"); err != nil {
				err = fmt.Errorf("table %s: %w", t.name, err)
			}
		}
	}
	if err != nil {
		return aloneError("back up", s.parsed, err)
	}
	return nil
}

// Close implements [backup.Source].
func (s *snapshot) Close() error {
	_ = s.conn.Close(context.Background()) // which ends the transaction
	return nil
}

// counter passes on the bytes written, and reports their number.
type counter struct {
	w        io.Writer
	done     int64
	progress func(done int64)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.done += int64(n)
	c.progress(c.done)
	return n, err
}

// connectAlone connects for work that takes as long as it takes.
func connectAlone(ctx context.Context, connection string, cfg journal.Config) (*pgx.Conn, *pgxpool.Config, error) {
	parsed, err := parse(connection)
	if err != nil {
		return nil, nil, err // it holds no password
	}
	parsed.ConnConfig.DialFunc = dialer(parsed.ConnConfig.ConnectTimeout, cfg.CommitTimeout)
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	conn, err := connectOnce(ctx, parsed.ConnConfig)
	if err == nil {
		if err = apply(ctx, conn, map[string]string{"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}); err != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}
	if err != nil {
		return nil, nil, aloneError("open", parsed, err)
	}
	return conn, parsed, nil
}

// aloneError explains an error of such work, which opens, backs up or restores a journal.
func aloneError(work string, parsed *pgxpool.Config, err error) error {
	if state(err) == stateForbidden {
		err = fmt.Errorf("%w; a backup needs the role roost_reader, and a restore the role that owns the schema roost", err)
	}
	return journalError(work, parsed, err)
}
