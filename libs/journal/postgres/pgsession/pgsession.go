// Package pgsession has the rules that hold for each connection to PostgreSQL, be it of a journal or of leases.
//
// # What this does not do
//
// It connects to nothing, and sets nothing in a session.
package pgsession

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Reread reads the files that a connection string names again, before each connection: the password (passfile), the certificate
// and its key, and the root certificates are replaced while processes run.
func Reread(_ context.Context, c *pgx.ConnConfig) error {
	fresh, err := pgx.ParseConfig(c.ConnString())
	if err != nil {
		return err
	}
	c.Password, c.TLSConfig, c.Fallbacks = fresh.Password, fresh.TLSConfig, fresh.Fallbacks
	return nil
}

// Doubtful reports whether a notice makes it doubtful that a commit lasts. When the wait for a synchronous standby is
// cancelled, the server commits, and the only sign of it is a WARNING: the commit may be lost when a standby takes
// over. Texts are translated, and the code of that warning is one of many. So each WARNING counts, unless it is known
// to be about something else.
func Doubtful(conn *pgconn.PgConn, n *pgconn.Notice) bool {
	switch {
	case n.SeverityUnlocalized != "WARNING":
		return false
	case conn.TxStatus() == 0: // the server warns while the connection is made, such as of collations of another version
		return false
	}
	return !slices.Contains(numbering, n.Routine)
}

// numbering lists the functions of the server that warn with each commit when it has few numbers of transactions left, because it
// was not vacuumed for long. Such a commit lasts like any other.
var numbering = []string{"GetNewTransactionId", "GetNewMultiXactId"}

// Doubt returns the error of a commit with a notice that is [Doubtful]; nil if there is none.
func Doubt(n *pgconn.Notice) error {
	if n == nil {
		return nil
	}
	detail := ""
	if n.Detail != "" {
		detail = " " + n.Detail
	}
	return fmt.Errorf("the server has committed with a warning, so the commit may not last: %s.%s (SQLSTATE %s)", n.Message, detail, n.Code)
}

// ErrPooler is the error of a connection whose statements reach several sessions of the server.
var ErrPooler = errors.New("the connection does not keep its session of the server: a pooler before it works in transaction or statement mode, in which settings and prepared statements get lost; " +
	"set it to session mode (pool_mode = session of pgbouncer), or connect to the server itself")

// SQLSTATEs of prepared statements that another session has, or that this one lacks.
const (
	stateDuplicateStatement = "42P05"
	stateNoStatement        = "26000"
)

// Pooled explains the errors that a pooler in transaction mode causes. It is nil if err is.
func Pooled(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && (e.Code == stateDuplicateStatement || e.Code == stateNoStatement) && !errors.Is(err, ErrPooler) {
		return fmt.Errorf("%w: %w", ErrPooler, err)
	}
	return err
}
