//go:build linux

package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

// TestRotatedPassword replaces the password of a role and the file that names it while the journal is open.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, admin := newDatabase(t, server)
	hba, err := os.ReadFile(server.Path("pg_hba.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(server.Path("pg_hba.conf"), append([]byte("local all rotated scram-sha-256\n"), hba...), 0o600); err != nil {
		t.Fatal(err)
	}
	passfile := filepath.Join(t.TempDir(), "pgpass")
	set := func(password string) {
		t.Helper()
		if err := os.WriteFile(passfile, []byte("*:*:*:rotated:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("one")
	if err := server.Exec(name, "CREATE ROLE rotated LOGIN SUPERUSER PASSWORD 'one'; SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server.URL("rotated", name))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("passfile", passfile)
	u.RawQuery = q.Encode()
	b := openAt(t, u.String(), journal.DefaultConfig())
	commit(t, b, claim(1))
	endSessions := func() {
		t.Helper()
		mustExec(t, connect(t, admin), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'")
	}

	if err := server.Exec(name, "ALTER ROLE rotated PASSWORD 'two'"); err != nil {
		t.Fatal(err)
	}
	endSessions()
	for err == nil || !strings.Contains(err.Error(), "28P01") { // the connections of before may be tried first
		if _, err = b.Commit(t.Context(), []journal.Op{add(1, alice, 1)}); err == nil {
			t.Fatal("a commit with the old password")
		}
	}
	set("two")
	commit(t, b, add(1, alice, 1))
	l, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice})
	for range journal.DefaultConfig().Loads { // a connection of before may be tried first
		if err != nil {
			l, err = b.Load(t.Context(), journal.LoadRequest{Entity: alice})
		}
	}
	if err != nil || l.LastSeq != 1 {
		t.Fatalf("load: %+v, %v", l, err)
	}
}

// TestCancelledWait cancels the wait of a commit for a synchronous standby: the server commits and only warns, so nobody knows whether
// the commit lasts.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	if got := cancelledWait(t); got != "" {
		t.Error(got)
	}
}

func cancelledWait(t *testing.T) string {
	server := postgrestest.Start(t)
	name, admin := newDatabase(t, server)
	b := openAt(t, admin, journal.DefaultConfig())
	commit(t, b, claim(1))
	observer := connect(t, admin)
	if err := server.Exec(name, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, observer, "SELECT pg_reload_conf()")
	got := make(chan error, 1)
	go func() {
		for seq := uint64(1); ; seq++ {
			if _, err := b.Commit(t.Context(), []journal.Op{add(1, alice, seq)}); err != nil {
				got <- err
				return
			}
		}
	}()
	var first time.Time
	for {
		select {
		case err := <-got:
			if errors.Is(err, journal.ErrNotCommitted) || errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), "01000") {
				return fmt.Sprintf("a commit whose wait was cancelled: %v", err)
			}
			return ""
		default:
		}
		var began time.Time
		err := observer.QueryRow(t.Context(), `WITH w AS MATERIALIZED (SELECT pid, query_start FROM pg_stat_activity WHERE wait_event = 'SyncRep')
			SELECT query_start FROM w WHERE pg_cancel_backend(pid)`).Scan(&began)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // not yet
		case err != nil:
			t.Fatal(err)
		case first.IsZero():
			first = began
		case began.After(first):
			return "another commit follows one whose wait was cancelled, which counted as durable"
		}
	}
}

// TestPoolerInSessionMode: settings hold through a pooler, which ignores startup parameters.
func TestPoolerInSessionMode(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, admin := newDatabase(t, server)
	cfg := journal.DefaultConfig()
	cfg.CommitTimeout, cfg.LoadTimeout = 4*time.Second, 6*time.Second
	b := openAt(t, server.NewPooler(t, "session").URL(name), cfg)
	commit(t, b, claim(1))
	conn, err := b.writes.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lock, statement, isolation string
	err = conn.QueryRow(t.Context(), "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('default_transaction_isolation')").Scan(&lock, &statement, &isolation)
	conn.Release()
	if got := fmt.Sprint(lock, " ", statement, " ", isolation); err != nil || got != "2s 4s read committed" {
		t.Errorf("the settings are %s, %v", got, err)
	}
	other := connect(t, admin)
	mustExec(t, other, "BEGIN")
	mustExec(t, other, "SELECT 1 FROM roost.fence FOR UPDATE")
	if _, err := b.Commit(t.Context(), []journal.Op{add(1, alice, 1)}); !errors.Is(err, journal.ErrNotCommitted) || state(err) != "55P03" {
		t.Errorf("a commit behind a lock: %v", err)
	}
	mustExec(t, other, "ROLLBACK")
	commit(t, b, add(1, alice, 1))
}

// TestPoolerInTransactionMode is refused with what to do.
func TestPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, admin := newDatabase(t, server)
	openAt(t, admin, journal.DefaultConfig()) // makes the schema
	pooler := server.NewPooler(t, "transaction").URL(name)
	_, err := Open(t.Context(), pooler, journal.DefaultConfig())
	if !errors.Is(err, errPooler) || errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("open: %v", err)
	}
}
