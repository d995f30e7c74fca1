package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// querier is a connection, as far as facts need one.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// readFacts reads the facts, including the highest epoch if epochs is set.
func readFacts(ctx context.Context, q querier, epochs bool) (journal.Facts, error) {
	var f journal.Facts
	err := each(ctx, q, "SELECT key, value FROM meta", func(rows *sql.Rows) error { return scanMeta(rows, &f) })
	if err != nil {
		return f, err
	}
	err = each(ctx, q, "SELECT name, shards FROM type ORDER BY name", func(rows *sql.Rows) error {
		var t journal.TypeFact
		err := rows.Scan(&t.Type, &t.Shards)
		f.Types = append(f.Types, t)
		return err
	})
	if err != nil || !epochs {
		return f, err
	}
	err = each(ctx, q, "SELECT epoch FROM fence", func(rows *sql.Rows) error {
		var epoch int64
		err := rows.Scan(&epoch)
		f.MaxEpoch = max(f.MaxEpoch, sharding.Epoch(epoch))
		return err
	})
	return f, err
}

// openedSQL reads what [journal.Facts.CheckOpened] needs.
const openedSQL = "SELECT key, value FROM meta WHERE key IN ('generation', 'min_reader', 'min_writer')"

// queryOpened reads the facts of openedSQL, which is prepared.
func queryOpened(ctx context.Context, opened *sql.Stmt) (journal.Facts, error) {
	rows, err := opened.QueryContext(ctx)
	if err != nil {
		return journal.Facts{}, err
	}
	return readOpened(rows)
}

// readOpened reads the facts from the rows of openedSQL, and closes them.
func readOpened(rows interface {
	scanner
	Next() bool
	Err() error
	Close() error
}) (journal.Facts, error) {
	var f journal.Facts
	defer rows.Close()
	for rows.Next() {
		if err := scanMeta(rows, &f); err != nil {
			return f, err
		}
	}
	return f, rows.Err()
}

// scanner is a row.
type scanner interface{ Scan(dest ...any) error }

// scanMeta reads one row of the table meta.
func scanMeta(rows scanner, f *journal.Facts) error {
	var key, value string
	err := rows.Scan(&key, &value)
	switch key {
	case "cluster":
		f.Cluster = value
	case "format":
		f.Format, err = strconv.Atoi(value)
	case "min_reader":
		f.MinReader, err = strconv.Atoi(value)
	case "min_writer":
		f.MinWriter, err = strconv.Atoi(value)
	case "generation":
		f.Generation, err = parseGeneration(value)
	}
	if err != nil {
		err = fmt.Errorf("%w: its %s is %q", journal.ErrIdentity, key, value)
	}
	return err
}

// createFacts stores the facts of a new journal.
func createFacts(ctx context.Context, q querier, f journal.Facts) error {
	_, err := q.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES ('format', ?), ('min_reader', ?), ('min_writer', ?), ('generation', ?)",
		strconv.Itoa(f.Format), strconv.Itoa(f.MinReader), strconv.Itoa(f.MinWriter), f.Generation.String())
	return err
}

func parseGeneration(s string) (sharding.Generation, error) {
	g, err := strconv.ParseUint(s, 16, 64)
	return sharding.Generation(g), err
}

// writeFacts stores what is in f and not in stored.
func writeFacts(ctx context.Context, q querier, stored, f journal.Facts) error {
	if stored.Cluster != f.Cluster {
		if _, err := q.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES ('cluster', ?)", f.Cluster); err != nil {
			return err
		}
	}
	if len(stored.Types) == len(f.Types) {
		return nil
	}
	for _, t := range f.Types {
		if _, err := q.ExecContext(ctx, "INSERT OR IGNORE INTO type (name, shards) VALUES (?, ?)", string(t.Type), t.Shards); err != nil {
			return err
		}
	}
	return nil
}

func each(ctx context.Context, q querier, query string, f func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
