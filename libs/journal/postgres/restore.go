package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/clock"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// maxUsers is the largest number of sessions that an error names.
	maxUsers = 8
	// leaveWithin bounds the time that sessions may take to end after their process has.
	leaveWithin = 2 * time.Second
)

// errDry ends the transaction of a dry run.
var errDry = errors.New("dry run")

// Restore puts the journal of a backup into a database, as the owner of the schema, in one
// transaction, so the database has either the old journal or the new one. It makes the schema if
// there is none. Processes that are connected are shut out: their next transaction is refused,
// because the journal has another generation. It returns the errors of [backup.Plan] and
// [backup.Reader].
func Restore(ctx context.Context, connection string, r *backup.Reader, cfg journal.Config, o backup.Options) (restored backup.Restored, err error) {
	if r.Header().Store != backup.Postgres {
		return restored, fmt.Errorf("%w: the backup has a journal in %s, and can be restored to the same kind only", journal.ErrIdentity, r.Header().Store)
	}
	err = alone(ctx, connection, cfg, func(conn *pgx.Conn) error {
		return transact(ctx, conn, func(tx pgx.Tx) (err error) {
			restored, err = restoreTo(ctx, tx, r, cfg, o)
			if err == nil && o.DryRun {
				err = errDry
			}
			return err
		})
	})
	if errors.Is(err, errDry) {
		err = nil
	}
	return restored, err
}

func restoreTo(ctx context.Context, tx pgx.Tx, r *backup.Reader, cfg journal.Config, o backup.Options) (restored backup.Restored, err error) {
	// Waiting for a lock keeps those waiting that come later.
	if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", fmt.Sprint(cfg.CommitTimeout.Milliseconds())); err != nil {
		return restored, err
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
		return restored, err
	}
	target, err := inspect(ctx, tx)
	if err == nil && !o.InUse {
		target.Users, err = usersThatStay(ctx, tx)
	}
	if err != nil {
		return restored, err
	}
	restored, fence, err := backup.Plan(r.Header(), target, o, clock.NewGeneration())
	if err != nil {
		return restored, err
	}
	if f := restored.Facts.Format; f != journal.Format {
		return restored, fmt.Errorf("%w: the backup has format %d, and this program makes a schema of format %d; restore it with the release that has made it, and then run \"roost journal upgrade\"", journal.ErrIdentity, f, journal.Format)
	}
	if o.DryRun {
		return restored, backup.Rest(r)
	}
	if exists, err := schemaExists(ctx, tx.Conn()); err != nil {
		return restored, err
	} else if !exists {
		if _, err := tx.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol); err != nil {
			return restored, err
		}
	}
	if err := replaceTables(ctx, tx, r); err != nil {
		return restored, err
	}
	return restored, renew(ctx, tx, restored.Facts, fence)
}

// usersThatStay names the sessions in the database. A process that was just stopped may need a
// moment until its sessions end.
func usersThatStay(ctx context.Context, tx pgx.Tx) ([]string, error) {
	for until := time.Now().Add(leaveWithin); ; {
		users, err := readUsers(ctx, tx)
		if err != nil || len(users) == 0 || time.Now().After(until) {
			return users, err
		}
		select {
		case <-time.After(leaveWithin / 20):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func readUsers(ctx context.Context, tx pgx.Tx) ([]string, error) {
	if _, err := tx.Exec(ctx, "SELECT pg_stat_clear_snapshot()"); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT format('%s %s', usename, coalesce(nullif(application_name, ''), host(client_addr), 'local'))
		FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	users, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if more := len(users) - maxUsers; more > 0 {
		users = append(users[:maxUsers], fmt.Sprintf("and %d others", more))
	}
	return users, err
}

// inspect looks at what is in the database.
func inspect(ctx context.Context, tx pgx.Tx) (t backup.Target, err error) {
	exists, err := schemaExists(ctx, tx.Conn())
	if err != nil || !exists {
		return t, err
	}
	t.Stored = true
	if t.Facts, err = storedFacts(ctx, tx.Conn(), epochsSQL); err != nil {
		if state(err) == stateDataCorrupt || state(err) == stateIndexCorrupt {
			err = fmt.Errorf("%w; restore into another database", err)
		}
		return t, err
	}
	if t.Facts.Format != journal.Format {
		return t, fmt.Errorf("%w: the schema there has format %d, and this program restores to format %d; use another database", journal.ErrIdentity, t.Facts.Format, journal.Format)
	}
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM roost.entity) OR EXISTS (SELECT FROM roost.fence)").Scan(&t.Stored)
	return t, err
}

// replaceTables replaces the content of the tables by the parts of a backup. Until the transaction ends, no
// other session reads or writes them.
func replaceTables(ctx context.Context, tx pgx.Tx, r *backup.Reader) error {
	tables, err := readTables(ctx, tx)
	if err != nil {
		return err
	}
	byPart := map[string]table{}
	var names []string
	for _, t := range tables {
		byPart[t.String()] = t
		names = append(names, pgx.Identifier{"roost", t.name}.Sanitize())
	}
	if _, err := tx.Exec(ctx, "TRUNCATE "+strings.Join(names, ", ")); err != nil {
		return err
	}
	for {
		name, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		t, known := byPart[name]
		if !known {
			return fmt.Errorf("%w: the backup has the table %s, and this program does not; restore it with the release that has made it", journal.ErrIdentity, name)
		}
		delete(byPart, name)
		if _, err := tx.Conn().PgConn().CopyFrom(ctx, r, "COPY "+t.sql()+" FROM STDIN (FORMAT binary)"); err != nil {
			if r.Err() != nil { // the server only reports that the copy has failed
				return r.Err()
			}
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	for name := range byPart {
		return fmt.Errorf("%w: the backup lacks the table %s; restore it with the release that has made it", journal.ErrIdentity, name)
	}
	return nil
}

// renew makes a journal of the restored tables, with a new generation and with fences that no
// region owns.
func renew(ctx context.Context, tx pgx.Tx, facts journal.Facts, fence sharding.Fence) error {
	if _, err := tx.Exec(ctx, "UPDATE roost.meta SET generation = $1", int64(facts.Generation)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE roost.fence SET epoch = $1, owner = $2", int64(fence.Epoch), int64(fence.Owner)); err != nil {
		return err
	}
	// A number of an entity is never given to another one.
	_, err := tx.Exec(ctx, "SELECT roost.number_entities()")
	return err
}
