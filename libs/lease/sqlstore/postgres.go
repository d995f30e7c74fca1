package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/roost-cluster/roost/libs/dial"
	"github.com/roost-cluster/roost/libs/lease"
)

const (
	// statementTimeout ends a statement that its sender has long given up.
	statementTimeout = 2 * time.Second
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 3 * time.Second
	// silence is how long the server's machine may leave a connection without a response before
	// the connection fails.
	silence = 4 * time.Second
	// schemaLock serializes the creation of the table; the number is arbitrary.
	schemaLock = 7267371939
	// stateForbidden is SQLSTATE insufficient_privilege,
	// https://www.postgresql.org/docs/current/errcodes-appendix.html.
	stateForbidden = "42501"
)

var postgresStatements = statementsOf("roost_lease.lease")

// OpenPostgres makes a store in the database that a URL names:
// postgres://user@host/database?sslmode=verify-full. What else libpq's
// environment variables say, such as PGPASSFILE, counts too. It connects when
// it is first asked, and makes the table then if there is none. Errors wrap
// lease.ErrConfig and hold no password.
func OpenPostgres(url string) (*Driver, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", lease.ErrConfig, err)
	}
	var settings []string
	for name := range c.RuntimeParams {
		// Others would be settings of the session, which could undo what a lease
		// promises.
		if name != "application_name" {
			settings = append(settings, name)
		}
	}
	if len(settings) > 0 {
		slices.Sort(settings)
		return nil, fmt.Errorf("%w: postgres: unknown parameter %s", lease.ErrConfig, strings.Join(settings, ", "))
	}
	c.ConnectTimeout, c.DialFunc = dialTimeout, dial.Dialer(dialTimeout, silence).DialContext
	c.RuntimeParams["statement_timeout"] = strconv.FormatInt(statementTimeout.Milliseconds(), 10)
	c.RuntimeParams["default_transaction_isolation"] = "read committed"
	db := stdlib.OpenDB(*c, stdlib.OptionAfterConnect(preparePostgres))
	// Three: two requests that hang must not delay the next one.
	db.SetMaxOpenConns(3)
	db.SetMaxIdleConns(2)
	return &Driver{db: db, stmts: postgresStatements, where: "postgres " + c.Host + " database " + c.Database}, nil
}

// preparePostgres checks the server of a new connection, and creates the table.
func preparePostgres(ctx context.Context, conn *pgx.Conn) error {
	for _, name := range []string{"fsync", "synchronous_commit"} {
		var value string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return err
		}
		if value == "off" {
			return fmt.Errorf("the server runs with %s off: a power cut could bring a spent term back; switch it on", name)
		}
	}
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('roost_lease.lease') IS NOT NULL`).Scan(&exists); err != nil || exists {
		return err
	}
	stmts := "CREATE SCHEMA IF NOT EXISTS roost_lease; " + strings.Join(strings.Fields(postgresStatements.create), " ")
	_, err := conn.Exec(ctx, fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(%d); %s; COMMIT", schemaLock, stmts), pgx.QueryExecModeSimpleProtocol)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == stateForbidden {
		return fmt.Errorf("the role may not create the schema roost_lease: GRANT CREATE ON DATABASE to it, or let the owner run: %s: %w", stmts, err)
	}
	return err
}
