package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/journal"
)

// Upgrade expands the schema of a journal to the format of this program, as its owner: it
// creates one where there is none. It reports whether it had to; with dryRun it changes
// nothing. Errors wrap [journal.ErrIdentity] for a schema that it cannot expand.
func Upgrade(ctx context.Context, connection string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	err = asOwner(ctx, connection, cfg, func(conn *pgx.Conn, parsed *pgxpool.Config) error {
		exists, err := schemaExists(ctx, conn)
		if changed = !exists; err != nil || changed && dryRun {
			return err
		}
		if changed {
			_, err = makeSchema(ctx, parsed.ConnConfig)
			return err
		}
		changed, err = expand(ctx, conn, dryRun)
		return err
	})
	return changed, err
}

// expand adds to a schema of an earlier format what it lacks, in one transaction, while
// processes of the release before use it.
func expand(ctx context.Context, conn *pgx.Conn, dryRun bool) (changed bool, err error) {
	err = transact(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
			return err
		}
		stored, err := storedFacts(ctx, conn, factsSQL)
		if err != nil {
			return err
		}
		var facts journal.Facts
		if facts, changed, err = stored.Expansion(); err != nil || !changed || dryRun {
			return err
		}
		for format := stored.Format + 1; format <= facts.Format; format++ {
			if _, err := tx.Exec(ctx, expansions[format], pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "UPDATE roost.meta SET format = $1", facts.Format)
		return err
	})
	return changed, err
}

// expansions holds, for each format from 2 on, the statements that extend the one before. A
// program of the format before works on a schema that has them: the functions that it calls
// stay.
var expansions = map[int]string{}

// activations holds the statements that activate the journal for a format: no program of the format before works
// on the schema any more.
var activations = map[int]string{}

// Activate lets no program below a format use the journal any more. It reports whether one
// could; with dryRun it changes nothing.
func Activate(ctx context.Context, connection string, cfg journal.Config, format int, dryRun bool) (changed bool, err error) {
	err = asOwner(ctx, connection, cfg, func(conn *pgx.Conn, _ *pgxpool.Config) error {
		if err := hasSchema(ctx, conn); err != nil {
			return err
		}
		facts, err := storedFacts(ctx, conn, factsSQL)
		if err != nil {
			return err
		}
		facts, changed, err = facts.Activation(format)
		if err != nil || !changed || dryRun {
			return err
		}
		return transact(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE roost.meta SET min_reader = $1, min_writer = $2", facts.MinReader, facts.MinWriter)
			if err == nil {
				_, err = tx.Exec(ctx, activations[format], pgx.QueryExecModeSimpleProtocol)
			}
			return err
		})
	})
	return changed, err
}

func asOwner(ctx context.Context, connection string, cfg journal.Config, f func(*pgx.Conn, *pgxpool.Config) error) error {
	parsed, err := parse(connection)
	if err != nil {
		return err // it holds no password
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	conn, err := connectOnce(ctx, parsed.ConnConfig)
	if err == nil {
		defer func() { _ = conn.Close(context.Background()) }()
		err = f(conn, parsed)
	}
	if err != nil {
		if state(err) == stateForbidden {
			err = fmt.Errorf("%w; run this as the role that owns the schema roost", err)
		}
		return openError(parsed, err)
	}
	return nil
}
