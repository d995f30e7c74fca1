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

	"github.com/roost-cluster/roost/libs/conn"
	"github.com/roost-cluster/roost/libs/journal/postgres/pgsession"
	"github.com/roost-cluster/roost/libs/lease"
)

const (
	// statementTimeout ends a statement that its sender has long given up.
	statementTimeout = 2 * time.Second
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 3 * time.Second
	// silence is the time without a response from the server's machine after which the connection fails.
	silence = 4 * time.Second
	// schemaLock serializes the creation of the table; the number is arbitrary.
	schemaLock = 7267371939
	// stateForbidden is SQLSTATE insufficient_privilege,
	// https://www.postgresql.org/docs/current/errcodes-appendix.html.
	stateForbidden = "42501"
)

var postgresStatements = statementsOf("roost_lease.lease")

// makePostgres makes the schema of leases. What a lease promises holds only if each write survives a power cut and a failover. So each write makes
// its own transaction durable, whatever the server or the role says at that moment: synchronous_commit is raised where it is too low, and never lowered. What a
// transaction cannot set is refused. The server must send warnings, because it reports a cancelled wait for a standby by one. Both are set even if they are
// right: the server may be reloaded before the commit.
var makePostgres = strings.Join(strings.Fields(`CREATE SCHEMA IF NOT EXISTS roost_lease; `+postgresStatements.create+`;
	CREATE OR REPLACE FUNCTION roost_lease.durable() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
	BEGIN
		PERFORM set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);
		PERFORM set_config('client_min_messages', 'warning', true);
		IF current_setting('fsync') = 'off' OR current_setting('full_page_writes') = 'off' THEN
			RAISE EXCEPTION 'the server runs with fsync = %, full_page_writes = %: a power cut could bring a spent term back; switch both on',
				current_setting('fsync'), current_setting('full_page_writes') USING ERRCODE = 'RO003';
		END IF;
		RETURN NULL;
	END $$;
	CREATE OR REPLACE TRIGGER durable BEFORE INSERT OR UPDATE ON roost_lease.lease EXECUTE FUNCTION roost_lease.durable()`), " ")

// OpenPostgres makes a store in the database that a URL names:
// postgres://user@host/database?sslmode=verify-full. What else libpq's
// environment variables say, such as PGPASSFILE, counts too. It connects when
// it is first asked, and makes the table then if there is none. Errors wrap
// lease.ErrConfig and hold no password.
func OpenPostgres(url string) (*Backend, error) {
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
	c.ConnectTimeout, c.DialFunc = dialTimeout, conn.Dialer(dialTimeout, silence).DialContext
	d := &Backend{stmts: postgresStatements, where: "postgres " + c.Host + " database " + c.Database}
	c.OnNotice = d.notice
	d.db = stdlib.OpenDB(*c, stdlib.OptionBeforeConnect(pgsession.Reread), stdlib.OptionAfterConnect(preparePostgres))
	// Three: two requests that hang must not delay the next one.
	d.db.SetMaxOpenConns(3)
	d.db.SetMaxIdleConns(2)
	return d, nil
}

// notice notes a warning of the server.
func (d *Backend) notice(conn *pgconn.PgConn, n *pgconn.Notice) {
	if pgsession.Doubtful(conn, n) {
		d.warning.Store(n)
	}
}

// warned returns an error if the server has warned since a Swap began, so that the outcome of its commit is unknown. A warning
// about another Swap that runs concurrently counts, too.
func (d *Backend) warned(before *pgconn.Notice) error {
	if n := d.warning.Load(); n != before {
		return pgsession.Doubt(n)
	}
	return nil
}

// preparePostgres sets up a new connection, and makes the schema. The settings are no startup parameters, because poolers ignore or refuse these.
func preparePostgres(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SELECT set_config('statement_timeout', $1, false), set_config('default_transaction_isolation', 'read committed', false)",
		pgx.QueryExecModeExec, strconv.FormatInt(statementTimeout.Milliseconds(), 10)); err != nil {
		return err
	}
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = to_regclass('roost_lease.lease') AND tgname = 'durable')").Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(%d); %s; COMMIT", schemaLock, makePostgres), pgx.QueryExecModeSimpleProtocol)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == stateForbidden {
		return fmt.Errorf("the role may not create the schema roost_lease: GRANT CREATE ON DATABASE to it, or let the owner run: %s: %w", makePostgres, err)
	}
	return err
}
