package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// session is the state of one connection that the driver keeps.
type session struct {
	id string // see settings
	// warning is the last WARNING of the server since expect, except those of numbering; nil: none.
	warning *pgconn.Notice
}

// sessionKey is the key of the session in the connection's data.
const sessionKey = "roost.session"

// sessionSetting is the setting that holds session.id in the server. The statements that commit compare it, see
// roost.durable.
const sessionSetting = "roost.session"

func sessionOf(conn *pgconn.PgConn) *session {
	s, ok := conn.CustomData()[sessionKey].(*session)
	if !ok {
		s = &session{id: fmt.Sprintf("%016x", rand.Uint64())}
		conn.CustomData()[sessionKey] = s
	}
	return s
}

// parse reads a connection string. All connections of this package are made from what it returns. An error of parsing holds no
// password.
func parse(connection string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(connection)
	if err != nil {
		return nil, err
	}
	c.BeforeConnect = reread
	c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" && !slices.Contains(numbering, n.Routine) {
			sessionOf(conn).warning = n
		}
	}
	return c, nil
}

// numbering lists the functions of the server that warn with each commit when it has few numbers of transactions left, because it
// was not vacuumed for long. Such a commit lasts like any other. Texts are translated, and the code of a warning is that of all others.
var numbering = []string{"GetNewTransactionId", "GetNewMultiXactId"}

// connectOnce makes a connection outside the pools.
func connectOnce(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	c = c.Copy()
	if err := reread(ctx, c); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, c)
}

// reread reads the files that a connection string names again, before each connection: the password (passfile), the certificate
// and its key, and the root certificates are replaced while processes run.
func reread(_ context.Context, c *pgx.ConnConfig) error {
	fresh, err := pgx.ParseConfig(c.ConnString())
	if err != nil {
		return err
	}
	c.Password, c.TLSConfig, c.Fallbacks = fresh.Password, fresh.TLSConfig, fresh.Fallbacks
	return nil
}

// apply gives a new connection its settings. They are not startup parameters, because poolers ignore or refuse these. The server returns
// what it has set, so a setting that does not hold is an error.
func apply(ctx context.Context, conn *pgx.Conn, settings map[string]string) error {
	id := sessionOf(conn.PgConn()).id
	names, values := []string{sessionSetting}, []string{id}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		names, values = append(names, name), append(values, settings[name])
	}
	if _, err := conn.Exec(ctx, "SELECT set_config(u.name, u.value, false) FROM unnest($1::text[], $2::text[]) AS u (name, value)",
		pgx.QueryExecModeExec, names, values); err != nil {
		return pooled(err)
	}
	return checkSession(ctx, conn)
}

// checkSession refuses a connection whose statements are not of one session of the server.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	var id string
	err := conn.QueryRow(ctx, "SELECT coalesce(current_setting($1, true), '')", pgx.QueryExecModeExec, sessionSetting).Scan(&id)
	if err == nil && id != sessionOf(conn.PgConn()).id {
		err = errPooler
	}
	return pooled(err)
}

// errPooler is the error of a connection whose statements reach several sessions of the server.
var errPooler = errors.New("the connection does not keep its session of the server: a pooler before it works in transaction or statement mode, in which settings and prepared statements get lost; " +
	"set it to session mode (pool_mode = session of pgbouncer), or connect to the server itself")

// SQLSTATEs of prepared statements that another session has, or that this one lacks.
const (
	stateDuplicateStatement = "42P05"
	stateNoStatement        = "26000"
)

// pooled explains the errors that a pooler in transaction mode causes. It is nil if err is.
func pooled(err error) error {
	if s := state(err); (s == stateDuplicateStatement || s == stateNoStatement) && !errors.Is(err, errPooler) {
		return fmt.Errorf("%w: %w", errPooler, err)
	}
	return err
}

// expect begins to wait for a commit.
func expect(conn *pgx.Conn) { sessionOf(conn.PgConn()).warning = nil }

// warned returns an error if the server has warned since expect. When the wait for a synchronous standby is cancelled, the server
// commits, and the only sign of it is a WARNING: the commit may be lost when a standby takes over. So the outcome is unknown.
func warned(conn *pgx.Conn) error {
	w := sessionOf(conn.PgConn()).warning
	if w == nil {
		return nil
	}
	detail := ""
	if w.Detail != "" {
		detail = " " + w.Detail
	}
	return fmt.Errorf("the server has committed with a warning, so the commit may not last: %s.%s (SQLSTATE %s)", w.Message, detail, w.Code)
}
