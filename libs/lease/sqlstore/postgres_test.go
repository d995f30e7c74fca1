//go:build linux

package sqlstore

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/leasetest"
)

func openPostgres(t *testing.T, url string) *Backend {
	t.Helper()
	s, err := OpenPostgres(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// One server and one database for all: making them takes longest.
func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	d := &database{server: server, name: name, url: server.URL(postgrestest.Superuser, name)}
	t.Run("suite", func(t *testing.T) {
		leasetest.Run(t, func(t *testing.T) leasetest.Harness {
			d.empty(t)
			return leasetest.Harness{
				Backend: openPostgres(t, d.url),
				Second:  func(t *testing.T) lease.Backend { return openPostgres(t, d.url) },
				Reopen: func(t *testing.T) lease.Backend {
					server.Kill()
					server.Run()
					return openPostgres(t, d.url)
				},
			}
		})
		leasetest.RunServer(t, func(t *testing.T) leasetest.ServerHarness {
			d.empty(t)
			return leasetest.ServerHarness{
				Server: server,
				Open:   func(t *testing.T) lease.Backend { return openPostgres(t, d.url) },
				Delete: func(t *testing.T, lease string) { d.exec(t, "DELETE FROM roost_lease.lease WHERE name = '"+lease+"'") },
			}
		})
	})
	t.Run("made by many at once", d.madeByMany)
	t.Run("roles", d.roles)
	t.Run("foreign rows", d.foreign)
	t.Run("refused", d.refused)
	t.Run("silent connections", d.silent)
	t.Run("not durable", d.notDurable)
	t.Run("warnings", d.warnings)
	t.Run("rotated password", d.rotated)
	t.Run("pooler", d.pooler)
}

type database struct {
	server    *postgrestest.Server
	name, url string
}

func (d *database) exec(t *testing.T, statements string) {
	t.Helper()
	if err := d.server.Exec(d.name, statements); err != nil {
		t.Fatal(err)
	}
}

func (d *database) empty(t *testing.T) { d.exec(t, "DROP SCHEMA IF EXISTS roost_lease CASCADE") }

// Many processes may start on an empty database at once.
func (d *database) madeByMany(t *testing.T) {
	d.empty(t)
	var wg sync.WaitGroup
	for range 6 {
		s := openPostgres(t, d.url)
		wg.Go(func() {
			if _, err := s.Get(t.Context(), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A role that may not create the table gets the remedy; the documented grants
// are enough.
func (d *database) roles(t *testing.T) {
	d.empty(t)
	d.exec(t, "CREATE ROLE service LOGIN")
	s := openPostgres(t, d.server.URL("service", d.name))
	_, err := s.Get(t.Context(), "x")
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "CREATE SCHEMA IF NOT EXISTS roost_lease") {
		t.Errorf("a role without rights gives %v", err)
	}
	d.exec(t, makePostgres+"; GRANT USAGE ON SCHEMA roost_lease TO service; GRANT SELECT, INSERT, UPDATE ON roost_lease.lease TO service")
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Errorf("a role with the grants gives %v, %v", ok, err)
	}
}

// A value of another writer is neither understood nor replaced.
func (d *database) foreign(t *testing.T) {
	named := func(err error) bool {
		return errors.Is(err, lease.ErrStore) && strings.Contains(err.Error(), "postgres ") && strings.Contains(err.Error(), d.name+` lease "x"`)
	}
	d.empty(t)
	s := openPostgres(t, d.url)
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	d.exec(t, "UPDATE roost_lease.lease SET term = -5")
	if _, err := s.Get(t.Context(), "x"); !named(err) {
		t.Errorf("a spoiled row gives %v", err)
	}
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); ok {
		t.Errorf("a spoiled row is replaced: %v", err)
	}
	d.empty(t)
	d.exec(t, "CREATE SCHEMA roost_lease; CREATE TABLE roost_lease.lease (name TEXT, colour TEXT)")
	s = openPostgres(t, d.url)
	if _, err := s.Get(t.Context(), "x"); !named(err) {
		t.Errorf("another table gives %v", err)
	}
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); ok || !named(err) {
		t.Errorf("another table is written to: %v, %v", ok, err)
	}
	d.empty(t)
}

// A role that the server does not let in is tried again and again.
func (d *database) refused(t *testing.T) {
	s := openPostgres(t, d.server.URL("stranger", d.name))
	for range 3 {
		_, err := s.Get(t.Context(), "x")
		if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "stranger") || !strings.Contains(err.Error(), `lease "x"`) {
			t.Errorf("a stranger gives %v", err)
		}
	}
	d.exec(t, "CREATE ROLE stranger LOGIN SUPERUSER")
	if _, err := s.Get(t.Context(), "x"); err != nil {
		t.Errorf("let in, it gives %v", err)
	}
}

// Connections that stay open and let nothing through are given up, even if the
// caller would wait forever.
func (d *database) silent(t *testing.T) {
	d.empty(t)
	proxy := d.server.NewProxy(t)
	s := openPostgres(t, proxy.URL(postgrestest.Superuser, d.name))
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	proxy.Silence(false)
	for attempt := 0; ; attempt++ {
		got := make(chan error, 1)
		go func() {
			_, err := s.Get(context.Background(), "x")
			got <- err
		}()
		select {
		case err := <-got:
			if err == nil {
				return
			}
			if attempt == 3 || !errors.Is(err, lease.ErrStore) {
				t.Fatalf("attempt %d gives %v", attempt, err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a request hangs")
		}
	}
}

// notDurable switches durability off while a coordinator uses the store: each write is durable all the same, or refused.
func (d *database) notDurable(t *testing.T) {
	d.empty(t)
	s := openPostgres(t, d.url)
	old := lease.Record{}
	swap := func() error {
		next := lease.Record{Term: 1, Nonce: old.Nonce + 1}
		ok, err := s.Swap(t.Context(), "x", old, next)
		if ok && err == nil {
			next.Version = old.Version + 1
			old = next
		}
		return err
	}
	if err := swap(); err != nil {
		t.Fatal(err)
	}
	d.exec(t, `CREATE TABLE seen (setting text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER see AFTER INSERT OR UPDATE ON roost_lease.lease DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see()`)
	conn, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	reload := func(statement string) { // and wait until all sessions have it, each before its next statement
		t.Helper()
		d.exec(t, statement)
		d.exec(t, "SELECT pg_reload_conf()")
	}
	for set, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "remote_apply": "remote_apply"} {
		reload("ALTER SYSTEM SET synchronous_commit = " + set)
		for got := ""; got != set; {
			if err := conn.QueryRow(t.Context(), "SELECT current_setting('synchronous_commit')").Scan(&got); err != nil {
				t.Fatal(err)
			}
		}
		d.exec(t, "DELETE FROM seen")
		if err := swap(); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT setting FROM seen").Scan(&got); err != nil || got != want {
			t.Errorf("with synchronous_commit = %s, a write commits with %q, want %q; %v", set, got, want, err)
		}
	}
	reload("ALTER SYSTEM RESET synchronous_commit")
	reload("ALTER SYSTEM SET full_page_writes = off")
	var refused error
	for range 1000 { // until the sessions have read the configuration
		if refused = swap(); refused != nil {
			break
		}
	}
	if !errors.Is(refused, lease.ErrStore) || !strings.Contains(refused.Error(), "full_page_writes = off") {
		t.Errorf("full_page_writes off gives %v", refused)
	}
	reload("ALTER SYSTEM RESET full_page_writes")
}

// warnings makes the server send warnings that do not concern a commit: each new connection of a setting of its role that is
// not valid, and each write of few numbers of transactions that are left. Otherwise no coordinator would hold a lease.
func (d *database) warnings(t *testing.T) {
	d.empty(t)
	d.exec(t, "CREATE ROLE odd LOGIN SUPERUSER; ALTER ROLE odd SET work_mem = '4MB'")
	d.exec(t, "UPDATE pg_db_role_setting SET setconfig = '{work_mem=odd}' WHERE setrole = 'odd'::regrole")
	s := openPostgres(t, d.server.URL("odd", d.name))
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Errorf("a write on a new connection gives %v, %v", ok, err)
	}
	conn, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for routine, counts := range map[string]bool{"GetNewTransactionId": false, "GetNewMultiXactId": false, "SyncRepWaitForLSN": true} {
		before := s.warning.Load()
		s.notice(conn.PgConn(), &pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "01000", Routine: routine})
		if err := s.warned(before); (err != nil) != counts {
			t.Errorf("a warning of %s gives %v", routine, err)
		}
	}
}

// rotated replaces the password of a role, and the file that names it.
func (d *database) rotated(t *testing.T) {
	d.empty(t)
	hba, err := os.ReadFile(d.server.Path("pg_hba.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.server.Path("pg_hba.conf"), append([]byte("local all rotated scram-sha-256\n"), hba...), 0o600); err != nil {
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
	d.exec(t, "CREATE ROLE rotated LOGIN SUPERUSER PASSWORD 'one'")
	d.exec(t, "SELECT pg_reload_conf()")
	s := openPostgres(t, d.server.URL("rotated", d.name)+"&passfile="+url.QueryEscape(passfile))
	if _, err := s.Get(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	d.exec(t, "ALTER ROLE rotated PASSWORD 'two'")
	d.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'")
	for err == nil || !strings.Contains(err.Error(), "28P01") { // a connection of before may be tried first
		if _, err = s.Get(t.Context(), "x"); err == nil {
			t.Fatal("the old password is taken")
		}
	}
	set("two")
	if _, err := s.Get(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}

// pooler refuses a pooler in transaction mode with what to do, and works through one in session mode.
func (d *database) pooler(t *testing.T) {
	d.empty(t)
	s := openPostgres(t, d.server.NewPooler(t, "session").URL(d.name))
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	transaction := d.server.NewPooler(t, "transaction").URL(d.name)
	var err error
	for range 2 {
		for s, n := openPostgres(t, transaction), 0; n < 2 && err == nil; n++ {
			_, err = s.Get(t.Context(), "x")
		}
	}
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "session mode") {
		t.Errorf("a pooler in transaction mode gives %v", err)
	}
}

func TestPostgresRefusedURLs(t *testing.T) {
	for _, url := range []string{"postgres://me:secret@h/d?synchronous_commit=off", "postgres://me:secret@h:x/d", "postgres://me:secret@h/d?sslmode=maybe"} {
		_, err := OpenPostgres(url)
		if !errors.Is(err, lease.ErrConfig) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s gives %v", url, err)
		}
	}
	if _, err := openPostgres(t, "postgres://127.0.0.1:1/d").Get(context.Background(), "x"); !errors.Is(err, lease.ErrStore) {
		t.Errorf("no server gives %v", err)
	}
}
