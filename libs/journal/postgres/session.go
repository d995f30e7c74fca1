package postgres

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/journal/postgres/pgsession"
)

// session is the state of one connection that the backend keeps.
type session struct {
	id string // drawn at random; the server holds it, too, see sessionSetting
	// warning is the last notice since expect that is [pgsession.Doubtful]; nil: none.
	warning *pgconn.Notice
}

// sessionKey is the key of the session in the connection's data.
const sessionKey = "roost.session"

// sessionSetting is the setting that holds session.id in the server, see checkSession.
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
	c.BeforeConnect = pgsession.Reread
	c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if pgsession.Doubtful(conn, n) {
			sessionOf(conn).warning = n
		}
	}
	return c, nil
}

// connectOnce makes a connection outside the pools.
func connectOnce(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	c = c.Copy()
	if err := pgsession.Reread(ctx, c); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, c)
}

// apply gives a new connection its settings. They are not startup parameters, because poolers ignore or refuse these.
// A setting that the server refuses is an error. Only the session's own is read back, which shows that the next statement
// reaches the same session.
func apply(ctx context.Context, conn *pgx.Conn, settings map[string]string) error {
	id := sessionOf(conn.PgConn()).id
	names, values := []string{sessionSetting}, []string{id}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		names, values = append(names, name), append(values, settings[name])
	}
	if _, err := conn.Exec(ctx, "SELECT set_config(u.name, u.value, false) FROM unnest($1::text[], $2::text[]) AS u (name, value)",
		pgx.QueryExecModeExec, names, values); err != nil {
		return pgsession.Pooled(err)
	}
	return checkSession(ctx, conn)
}

// checkSession refuses a connection whose statements are not of one session of the server.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	var id string
	err := conn.QueryRow(ctx, "SELECT coalesce(current_setting($1, true), '')", pgx.QueryExecModeExec, sessionSetting).Scan(&id)
	if err == nil && id != sessionOf(conn.PgConn()).id {
		err = pgsession.ErrPooler
	}
	return pgsession.Pooled(err)
}

// expect begins to wait for a commit.
func expect(conn *pgx.Conn) { sessionOf(conn.PgConn()).warning = nil }

// warned returns an error if the server has warned since expect, so that the outcome of a commit is unknown.
func warned(conn *pgx.Conn) error { return pgsession.Doubt(sessionOf(conn.PgConn()).warning) }
