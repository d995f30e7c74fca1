//go:build linux

package spread

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/postgres"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// keepMeta keeps the row about a new journal, with the generation for which the suite looks in errors.
	keepMeta = "UPDATE roost.meta SET generation = 4711; CREATE TABLE new_meta AS TABLE roost.meta"
	// emptyJournal makes a journal as it was when it was new. A new schema or database would take several times as long.
	emptyJournal = `
		DO $$ BEGIN
			EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('roost.%I', tablename), ', ') FROM pg_tables WHERE schemaname = 'roost');
		END $$;
		INSERT INTO roost.meta TABLE new_meta`
)

// TestPostgres runs the suite on two databases of a server.
func TestPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("not a short test")
	}
	t.Parallel()
	server := postgrestest.Start(t)
	ctx := context.Background()
	var names, urls [2]string
	for i := range urls {
		var err error
		if names[i], err = server.NewDatabase(); err != nil {
			t.Fatal(err)
		}
		urls[i] = server.URL(postgrestest.Superuser, names[i])
		d, err := postgres.Open(ctx, urls[i], journal.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Close(), server.Exec(names[i], keepMeta)); err != nil {
			t.Fatal(err)
		}
	}
	journaltest.Run(t, func(t *testing.T, cfg journal.Config, clock journal.Clock) journaltest.Harness {
		for _, name := range names {
			if err := server.Exec(name, emptyJournal); err != nil {
				t.Fatal(err)
			}
		}
		driver := func(ctx context.Context, lane int) (journal.Driver, error) {
			d, err := postgres.Open(ctx, urls[lane], cfg)
			if err != nil {
				return nil, err
			}
			d.SetClock(clock)
			return d, nil
		}
		// change runs a statement in a database as an operator could.
		change := func(lane int, statement string, args ...any) error {
			conn, err := pgx.Connect(ctx, urls[lane])
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close(ctx) }()
			tag, err := conn.Exec(ctx, statement, args...)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("%d rows changed", tag.RowsAffected())
			}
			return err
		}
		both := func(statement string, args ...any) error {
			return errors.Join(change(0, statement, args...), change(1, statement, args...))
		}
		second := func(open func(ctx context.Context) (journal.Reader, error)) []Database {
			return []Database{{Number: 2, Open: open}}
		}
		of := func(e sharding.Entity) int {
			if e.Type == "Account" {
				return 1
			}
			return 0
		}
		const id = "(SELECT id FROM roost.entity WHERE type = $1 AND name = $2)"
		return journaltest.Harness{
			Open: func() (journal.Driver, error) {
				first, err := driver(ctx, 0)
				if err != nil {
					return nil, err
				}
				d, err := Open(ctx, first, second(func(ctx context.Context) (journal.Reader, error) { return driver(ctx, 1) }), nil)
				if err != nil {
					return nil, errors.Join(err, first.Close())
				}
				return placed(ctx, d, nil)
			},
			OpenReader: func() (journal.Reader, error) {
				first, err := postgres.OpenReader(ctx, urls[0], cfg)
				if err != nil {
					return nil, err
				}
				r, err := OpenReader(ctx, first, second(func(ctx context.Context) (journal.Reader, error) { return postgres.OpenReader(ctx, urls[1], cfg) }))
				if err != nil {
					return nil, errors.Join(err, first.Close())
				}
				return r, nil
			},
			Replace: func() error {
				if err := both("UPDATE roost.meta SET generation = 4712"); err != nil {
					return err
				}
				d, err := driver(ctx, 1)
				if err != nil {
					return err
				}
				return errors.Join(Renew(ctx, d, 4712), d.Close())
			},
			SetLowest: func(reader, writer int) error {
				return both("UPDATE roost.meta SET min_reader = $1, min_writer = $2", reader, writer)
			},
			Damage: func(e sharding.Entity, seq uint64) error {
				return change(of(e), `UPDATE roost.record SET body = set_byte(body, length(body) - 3, get_byte(body, length(body) - 3) # 16)
					WHERE seq = $3 AND entity = `+id, string(e.Type), []byte(e.ID), int64(seq))
			},
			Lose: func(e sharding.Entity, seq uint64) error {
				return change(of(e), "DELETE FROM roost.record WHERE seq = $3 AND entity = "+id, string(e.Type), []byte(e.ID), int64(seq))
			},
			Renumber: func(e sharding.Entity, seq uint64, to int64) error {
				return change(of(e), "UPDATE roost.record SET seq = $3 WHERE seq = $4 AND entity = "+id, string(e.Type), []byte(e.ID), to, int64(seq))
			},
			SetSnapshot: func(e sharding.Entity, seq int64) error {
				return change(of(e), "UPDATE roost.entity SET snapshot = $3 WHERE id = "+id, string(e.Type), []byte(e.ID), seq)
			},
		}
	})
}
