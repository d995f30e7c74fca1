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

// readFacts reads the facts, the highest epoch among them if that is asked for.
func readFacts(ctx context.Context, q querier, epochs bool) (journal.Facts, error) {
	var f journal.Facts
	err := each(ctx, q, "SELECT key, value FROM meta", func(rows *sql.Rows) error {
		var key, value string
		err := rows.Scan(&key, &value)
		switch key {
		case "cluster":
			f.Cluster = value
		case "format":
			if f.Format, err = strconv.Atoi(value); err != nil {
				err = fmt.Errorf("%w: its format is %q", journal.ErrIdentity, value)
			}
		}
		return err
	})
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

// writeFacts stores what is in f and not in stored.
func writeFacts(ctx context.Context, q querier, stored, f journal.Facts) error {
	if stored.Cluster != f.Cluster {
		_, err := q.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES ('cluster', ?), ('format', ?)", f.Cluster, strconv.Itoa(f.Format))
		if err != nil {
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
