package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/journal"
)

// Upgrade expands the schema of a journal to the format of this program, as its owner: it
// creates one where there is none. It says whether it had to; with dryRun it changes
// nothing. Errors wrap [journal.ErrIdentity] for a schema that it cannot expand.
func Upgrade(ctx context.Context, connection string, cfg journal.Config, dryRun bool) (changed bool, err error) {
	err = asOwner(ctx, connection, cfg, func(conn *pgx.Conn, parsed *pgxpool.Config) error {
		exists, err := schemaExists(ctx, conn)
		if changed = !exists; err != nil || changed && dryRun {
			return err
		}
		_, err = makeSchema(ctx, parsed.ConnConfig)
		return err
	})
	return changed, err
}

// Activate lets no program below a format use the journal any more. It says whether one
// could; with dryRun it changes nothing.
func Activate(ctx context.Context, connection string, cfg journal.Config, format int, dryRun bool) (changed bool, err error) {
	err = asOwner(ctx, connection, cfg, func(conn *pgx.Conn, _ *pgxpool.Config) error {
		if err := hasSchema(ctx, conn); err != nil {
			return err
		}
		facts, err := readFacts(ctx, conn, factsSQL)
		if err != nil {
			return err
		}
		facts, changed, err = facts.Activation(format)
		if err == nil && changed && !dryRun {
			_, err = conn.Exec(ctx, "UPDATE roost.meta SET min_reader = $1, min_writer = $2", facts.MinReader, facts.MinWriter)
		}
		return err
	})
	return changed, err
}

func asOwner(ctx context.Context, connection string, cfg journal.Config, f func(*pgx.Conn, *pgxpool.Config) error) error {
	parsed, err := pgxpool.ParseConfig(connection)
	if err != nil {
		return err // it holds no password
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, parsed.ConnConfig.Copy())
	if err == nil {
		defer func() { _ = conn.Close(context.Background()) }()
		err = f(conn, parsed)
	}
	if err != nil {
		return openError(parsed, explain(err))
	}
	return nil
}
