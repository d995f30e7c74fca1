package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/conn"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/clock"
	"github.com/roost-cluster/roost/libs/journal/postgres/pgsession"
	"github.com/roost-cluster/roost/libs/sharding"
)

//go:embed schema.sql
var schema string

// SQLSTATEs, https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	stateDiskFull      = "53100"
	stateForbidden     = "42501"
	stateDataCorrupt   = "XX001"
	stateIndexCorrupt  = "XX002"
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateUnique        = "23505"
	stateNoColumn      = "42703"
	stateIO            = "58030"
	stateReplaced      = "RO001" // ours: see schema.sql
	stateUnexpected    = "RO002"
)

// schemaLock is the advisory lock under which the schema is created; the number is
// arbitrary.
const schemaLock = 7267371938

// Statements that every connection of a pool prepares.
const (
	commitName = "roost_commit"
	appendName = "roost_append"
	bothName   = "roost_append_and_commit"
	// No journal has generation 0, which refuses a program that does not know the format.
	// The functions of the schema do not compare formats.
	openedSQL    = "CASE WHEN greatest(m.min_reader, m.min_writer) <= $1 THEN $2::bigint ELSE 0 END"
	declareName  = "roost_declare"
	declareSQL   = "SELECT roost.declare_facts(" + openedSQL + ", $3, $4, $5) FROM roost.meta m WHERE m.one"
	fencesName   = "roost_fences"
	factsName    = "roost_facts"
	epochsName   = "roost_epochs"
	loadName     = "roost_load"
	listName     = "roost_list"
	listTypeName = "roost_list_type"
	wakesName    = "roost_wakes"
	pendingName  = "roost_sends"
	deadName     = "roost_sends_dead"
	historyName  = "roost_history"
	bodiesName   = "roost_bodies"
)

// Statements that commit. The function that comes first gets its parameters first. The other one gets the
// generation from it, so that it comes second.
var (
	commitSQL = "SELECT c.verdict, c.epoch, c.owner FROM roost.meta m, LATERAL " + call("commit_batch", 2, batchParameters, openedSQL) + " c WHERE m.one"
	appendSQL = "SELECT a.generation FROM roost.meta m, LATERAL " + call("append_records", 2, appendParameters, openedSQL) + " a (generation) WHERE m.one"
	bothSQL   = "SELECT c.verdict, c.epoch, c.owner FROM roost.meta m, LATERAL " + call("append_records", 2, appendParameters, openedSQL) + " a (generation), LATERAL " +
		call("commit_batch", 2+appendParameters.before+appendParameters.after, batchParameters, "a.generation") + " c WHERE m.one"
)

// parameters is the number of parameters of a function before the generation, and after it.
type parameters struct{ before, after int }

var (
	batchParameters  = parameters{before: 49, after: 6}
	appendParameters = parameters{before: 23, after: 2}
)

// call is the call of a function of the schema, whose parameters are behind so many others.
func call(function string, behind int, p parameters, generation string) string {
	args := make([]string, 0, p.before+1+p.after)
	for i := range p.before + p.after {
		if i == p.before {
			args = append(args, generation)
		}
		args = append(args, fmt.Sprint("$", behind+1+i))
	}
	return "roost." + function + "(" + strings.Join(args, ", ") + ")"
}

// Backend is one process's handle on a journal in PostgreSQL.
type Backend struct {
	cfg        journal.Config
	generation sharding.Generation // of the journal when it was opened
	writes     *pgxpool.Pool       // Commit and Declare, one at a time
	marks      marks
	reads      *Reader
	clock      clock.Timekeeper
	closing    sync.Once
}

// Open connects to the journal that a connection string names: a URL or
// keywords and values as libpq knows them, whose environment (PGPASSFILE, …)
// counts as well. An empty database gets the schema if the role may make it. Of
// cfg, the dedupe limits, Loads, LoadTimeout and CommitTimeout matter. Errors wrap
// [journal.ErrIdentity] for another format.
func Open(ctx context.Context, connection string, cfg journal.Config) (*Backend, error) {
	parsed, err := parse(connection)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	d, err := openParsed(ctx, parsed, cfg)
	if err != nil {
		return nil, openError(parsed, err)
	}
	return d, nil
}

func openError(parsed *pgxpool.Config, err error) error { return journalError("open", parsed, err) }

// journalError names the journal and the work that failed.
func journalError(work string, parsed *pgxpool.Config, err error) error {
	c := parsed.ConnConfig
	return fmt.Errorf("%s journal %s at %s: %w", work, c.Database, c.Host, unreachable(pgsession.Pooled(err)))
}

func openParsed(ctx context.Context, parsed *pgxpool.Config, cfg journal.Config) (*Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	parsed.ConnConfig.DialFunc = dialer(parsed.ConnConfig.ConnectTimeout, cfg.CommitTimeout)
	parsed.ConnConfig.ValidateConnect = checkPrimary // whatever target_session_attrs says
	facts, err := makeSchema(ctx, parsed.ConnConfig)
	if err != nil {
		return nil, err
	}
	d := &Backend{cfg: cfg, generation: facts.Generation, clock: clock.NewTimekeeper(clock.System())}
	// Two: the next batch must not wait for a connection that is being closed.
	check := func(ctx context.Context, conn *pgx.Conn) error {
		if err := checkServer(ctx, conn); err != nil {
			return err
		}
		return d.marks.check(ctx, conn, d.generation)
	}
	d.writes, err = pool(ctx, parsed, cfg.CommitTimeout, 2, check, nil, map[string]string{
		commitName: commitSQL, appendName: appendSQL, bothName: bothSQL, declareName: declareSQL,
		fencesName: fencesSQL, factsName: factsSQL, epochsName: epochsSQL,
	})
	if err != nil {
		return nil, err
	}
	if d.reads, err = newReader(ctx, parsed, cfg, checkServer, nil); err != nil {
		d.writes.Close()
		return nil, err
	}
	d.reads.generation = d.generation
	// Now there are two connections. If a pooler puts them into one session of the server, the second one has taken it over.
	err = d.writes.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if err := checkSession(ctx, conn.Conn()); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT roost.number_entities()")
		return explain(err)
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// pool makes a pool of connections and tries one. Each connection has the settings of a journal and more, passes the
// check and has prepared statements.
func pool(ctx context.Context, parsed *pgxpool.Config, timeout time.Duration, size int, check func(context.Context, *pgx.Conn) error, more, statements map[string]string) (*pgxpool.Pool, error) {
	c := parsed.Copy()
	c.MaxConns, c.MinConns, c.MinIdleConns = int32(size), 0, 0
	set := map[string]string{}
	set["default_transaction_isolation"] = "read committed" // what commit_batch relies on
	// Every table is read by a key. Otherwise a plan that was made for empty tables might be
	// kept too long. The statements do their part: where a table is joined by a key x, they
	// say k = ANY (ARRAY[x]), because with k = x a server may also read the whole index, to
	// join in its order; or they look for one row with LATERAL and LIMIT 1.
	set["enable_seqscan"], set["enable_indexonlyscan"], set["enable_hashjoin"], set["enable_mergejoin"] = "off", "off", "off", "off"
	// Otherwise the server would plan a statement anew each time it is run, as long as it
	// thinks that the values make a better plan possible. Reads by keys have only one.
	set["plan_cache_mode"] = "force_generic_plan"
	// A plan that must scan a table all the same looks so costly then that the server
	// would compile it, which takes many times as long as running it.
	set["jit"] = "off"
	// A statement whose sender has given up ends too. Waiting for a lock ends
	// earlier, so that its outcome is certain.
	set["statement_timeout"] = strconv.FormatInt(max(timeout.Milliseconds(), 2), 10)
	set["lock_timeout"] = strconv.FormatInt(max(timeout.Milliseconds()/2, 1), 10)
	maps.Copy(set, more)
	detectSilence(c, timeout)
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := apply(ctx, conn, set); err != nil {
			return err
		}
		if err := check(ctx, conn); err != nil {
			return err
		}
		for name, sql := range statements {
			if _, err := conn.Prepare(ctx, name, sql); err != nil {
				return explain(pgsession.Pooled(err))
			}
		}
		return nil
	}
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	conn, err := p.Acquire(ctx)
	if err != nil {
		p.Close()
		return nil, err
	}
	conn.Release()
	return p, nil
}

// detectSilence makes a pool detect connections that died silently. Requests have a
// deadline. An idle connection is pinged before use, for a part of that time only, so
// that a new one can still be made. A connection is closed at once: waiting for the
// server's goodbye would occupy its place in the pool for 15 s.
func detectSilence(c *pgxpool.Config, timeout time.Duration) {
	c.ConnConfig.DialFunc = dialer(c.ConnConfig.ConnectTimeout, timeout)
	c.PingTimeout = max(timeout/10, time.Millisecond)
	c.BeforeClose = func(conn *pgx.Conn) { _ = conn.PgConn().Conn().Close() }
}

func dialer(connect, timeout time.Duration) pgconn.DialFunc {
	if connect <= 0 || connect > timeout/2 {
		connect = timeout / 2
	}
	d := conn.Dialer(connect, timeout)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return conn.Wrap(nc), nil
	}
}

// checkPrimary refuses a read-only server, usually a standby. It may lack data that is already stored, so that a
// former owner of a shard would pass for the owner there. The next server of the URL is tried then.
func checkPrimary(ctx context.Context, conn *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn)
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		return fmt.Errorf("%w: the server is a standby or read-only, and may lack data of the primary; name the primary, or all servers", err)
	}
	return err
}

// checkServer refuses a server whose commits could be lost in a power cut, and a role without rights.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, durableSQL, pgx.QueryExecModeExec)
	return explain(err)
}

// durableSQL makes a transaction durable. The functions of the schema that write do so themselves.
const durableSQL = "SELECT roost.durable()"

// transact runs f in a transaction, which is durable if it returns nil.
func transact(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	expect(conn)
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		err := f(tx)
		if err == nil { // not before: f may make the schema
			_, err = tx.Exec(ctx, durableSQL)
		}
		return err
	})
	if err == nil {
		err = warned(conn)
	}
	return err
}

// makeSchema creates the schema if there is none, checks its format, and returns its
// facts.
func makeSchema(ctx context.Context, c *pgx.ConnConfig) (journal.Facts, error) {
	conn, err := connectOnce(ctx, c)
	if err != nil {
		return journal.Facts{}, err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	exists, err := schemaExists(ctx, conn)
	if err != nil {
		return journal.Facts{}, err
	}
	if !exists {
		err = transact(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
				return err
			}
			if exists, err := schemaExists(ctx, conn); exists || err != nil {
				return err
			}
			_, err := tx.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if err != nil {
			return journal.Facts{}, explain(err)
		}
	}
	facts, err := storedFacts(ctx, conn, factsSQL)
	if err != nil {
		return facts, err
	}
	return facts, facts.Check()
}

// storedFacts reads the facts of a schema that this process has not read before.
func storedFacts(ctx context.Context, conn *pgx.Conn, query string) (journal.Facts, error) {
	facts, err := readFacts(ctx, conn, query)
	if state(err) == stateNoColumn { // meta has no column roost, or even fewer
		err = journal.ErrUnmarked
	}
	return facts, explain(err)
}

func schemaExists(ctx context.Context, conn *pgx.Conn) (exists bool, err error) {
	// The catalogue, because the role may be allowed to read nothing else.
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'roost' AND c.relname = 'meta')`).Scan(&exists)
	return exists, err
}

// unreachable wraps errors of opening that may be transient: there is no server, or
// it is starting, stopping, out of connections or slow.
func unreachable(err error) error {
	var e *pgconn.PgError
	var c *pgconn.ConnectError
	switch {
	case errors.As(err, &e):
		if !slices.Contains([]string{"08", "53", "57"}, e.Code[:min(2, len(e.Code))]) {
			return err
		}
	case !errors.As(err, &c) && !errors.Is(err, context.DeadlineExceeded) && !pgconn.SafeToRetry(err):
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrUnreachable, err)
}

// explain adds the remedy to an error about missing rights. It is nil if err is.
func explain(err error) error {
	if state(err) == stateForbidden {
		return fmt.Errorf("%w; let the owner of the database run schema.sql and roles.sql, and grant roost_service to this role", err)
	}
	return err
}

// state returns the SQLSTATE of a server's error, empty for other errors.
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// SetClock replaces the clock that dates records, for tests.
func (d *Backend) SetClock(c journal.Clock) { d.clock.SetClock(c) }

// Close implements [journal.Backend]. Closing again does nothing.
func (d *Backend) Close() error {
	d.closing.Do(func() {
		d.writes.Close()
		d.reads.pool.Close()
	})
	return nil
}
