//go:build linux

package postgres

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/pgsession"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
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
	mustCommit(t, b, claim(1))
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
	mustCommit(t, b, add(1, alice, 1))
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

// TestRotatedCertificate replaces the client certificate and its key between two connections.
func TestRotatedCertificate(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	renew := func() (der []byte) {
		t.Helper()
		private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1)}
		if der, err = x509.CreateCertificate(crand.Reader, template, template, &private.PublicKey, private); err != nil {
			t.Fatal(err)
		}
		text, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: text}} {
			if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return der
	}
	renew()
	c, err := parse("postgres://roost@/roost?host=db1.example.net,db2.example.net&sslmode=require&sslcert=" + url.QueryEscape(cert) + "&sslkey=" + url.QueryEscape(key))
	if err != nil {
		t.Fatal(err)
	}
	fresh, next := renew(), c.ConnConfig.Copy()
	if err := c.BeforeConnect(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for _, used := range []*tls.Config{next.TLSConfig, next.Fallbacks[0].TLSConfig} {
		if !bytes.Equal(used.Certificates[0].Certificate[0], fresh) {
			t.Error("a connection uses the certificate of before")
		}
	}
}

// TestCancelledWait cancels the wait of a commit for a synchronous standby: the server commits and only warns, so it is unknown whether
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
	mustCommit(t, b, claim(1))
	observer := connect(t, admin)
	for _, setting := range []string{"synchronous_standby_names = 'nobody'", "client_min_messages = 'error'"} {
		if err := server.Exec(name, "ALTER SYSTEM SET "+setting); err != nil {
			t.Fatal(err)
		}
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

// TestWarningOfNumbers: a server that has few numbers of transactions left warns with each commit, which lasts.
func TestWarningOfNumbers(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	parsed, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connectOnce(t.Context(), parsed.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, c := range []struct {
		routines []string
		unknown  bool
	}{
		{[]string{"GetNewTransactionId", "GetNewMultiXactId"}, false},
		{[]string{"GetNewTransactionId", "SyncRepWaitForLSN"}, true},
		{[]string{"SyncRepWaitForLSN", "GetNewTransactionId"}, true},
	} {
		expect(conn)
		for _, routine := range c.routines {
			parsed.ConnConfig.OnNotice(conn.PgConn(), &pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "01000", Routine: routine})
		}
		if err := warned(conn); (err != nil) != c.unknown {
			t.Errorf("a commit with warnings of %s: %v", c.routines, err)
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
	mustCommit(t, b, claim(1))
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
	mustCommit(t, b, add(1, alice, 1))
}

// TestPoolerInTransactionMode is refused with what to do.
func TestPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, admin := newDatabase(t, server)
	openAt(t, admin, journal.DefaultConfig()) // makes the schema
	pooler := server.NewPooler(t, "transaction").URL(name)
	_, err := Open(t.Context(), pooler, journal.DefaultConfig())
	if !errors.Is(err, pgsession.ErrPooler) || errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("open: %v", err)
	}
}

// TestDurabilityWhileOpen switches the durability of the server off while the journal is open: each commit is durable all the same, or refused.
func TestDurabilityWhileOpen(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	mustExec(t, conn, "CREATE TABLE seen (tab text, setting text)")
	mustExec(t, conn, "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NULL; END $$")
	for _, table := range []string{"type", "fence", "entity", "record", "snapshot"} { // at the commit
		mustExec(t, conn, "CREATE CONSTRAINT TRIGGER see AFTER INSERT OR UPDATE ON roost."+table+" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see()")
	}
	set := func(name, value string) {
		t.Helper()
		mustExec(t, conn, "ALTER SYSTEM SET "+name+" = '"+value+"'")
		mustExec(t, conn, "SELECT pg_reload_conf()")
		has := func(conn *pgx.Conn) {
			for got := ""; got != value; {
				if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil {
					t.Fatal(err)
				}
			}
		}
		has(conn)
		for _, idle := range b.writes.AcquireAllIdle(t.Context()) { // each session has a signal of its own
			has(idle.Conn())
			idle.Release()
		}
	}
	epoch, seq := sharding.Epoch(0), uint64(0)
	for _, c := range []struct{ setting, want string }{{"off", "on"}, {"local", "on"}, {"remote_write", "on"}, {"on", "on"}, {"remote_apply", "remote_apply"}} {
		set("synchronous_commit", c.setting)
		mustExec(t, conn, "DELETE FROM seen")
		epoch++
		seq++
		mustCommit(t, b, claim(epoch))
		mustCommit(t, b, add(epoch, alice, seq))
		mustCommit(t, b, journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: epoch, Entity: alice, Snapshot: journal.Snapshot{Seq: seq}}})
		typ := sharding.TypeDesc{Type: sharding.EntityType(fmt.Sprint("T", epoch)), Shards: 1}
		if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{typ}}); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT string_agg(DISTINCT setting, ' ') || count(DISTINCT tab) FROM seen").Scan(&got); err != nil || got != c.want+"5" {
			t.Errorf("with synchronous_commit = %s: %s (%v), want %s in 5 tables", c.setting, got, err, c.want)
		}
	}
	for _, name := range []string{"fsync", "full_page_writes"} {
		set(name, "off")
		if _, err := b.Commit(t.Context(), []journal.Op{add(epoch, alice, seq+1)}); !errors.Is(err, journal.ErrNotCommitted) || !strings.Contains(err.Error(), name+" = off") {
			t.Errorf("with %s = off: %v", name, err)
		}
		if _, err := Open(t.Context(), url, journal.DefaultConfig()); err == nil || !strings.Contains(err.Error(), name+" = off") {
			t.Errorf("open with %s = off: %v", name, err)
		}
		set(name, "on")
		seq++
		mustCommit(t, b, add(epoch, alice, seq))
	}
	// What was acknowledged while the server said off survives a crash.
	set("wal_writer_delay", "10s")
	set("synchronous_commit", "off")
	for range 5 {
		seq++
		mustCommit(t, b, add(epoch, alice, seq))
	}
	server.Kill()
	server.Run()
	var last uint64
	if err := connect(t, server.URL(postgrestest.Superuser, name)).QueryRow(t.Context(), "SELECT last FROM roost.entity").Scan(&last); err != nil || last != seq {
		t.Errorf("after a crash, the last record is %d, want %d; %v", last, seq, err)
	}
}

// TestEntityNumbers: the sequence of entity numbers is behind, as after a logical replication.
func TestEntityNumbers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	mustCommit(t, b, claim(1))
	named := func(n int) journal.Op {
		return add(1, sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprint("e", n))}, 1)
	}
	for n := range 20 {
		mustCommit(t, b, named(n))
	}
	conn := connect(t, url)
	mustExec(t, conn, "SELECT setval('roost.entity_id', 1, false)")
	// While the journal is open: the first commit finds out.
	if _, err := b.Commit(t.Context(), []journal.Op{named(20)}); !errors.Is(err, journal.ErrNotCommitted) {
		t.Errorf("a number in use: %v", err)
	}
	mustCommit(t, b, named(20))
	two := named(21)
	two.Append.Records = append(two.Append.Records, sharding.Record{Seq: 2}) // by commit_batch
	mustExec(t, conn, "SELECT setval('roost.entity_id', 1, false)")
	if _, err := b.Commit(t.Context(), []journal.Op{two}); !errors.Is(err, journal.ErrNotCommitted) {
		t.Errorf("a number in use: %v", err)
	}
	mustCommit(t, b, two)
	// When it is opened.
	mustExec(t, conn, "SELECT setval('roost.entity_id', 1, false)")
	mustCommit(t, openAt(t, url, journal.DefaultConfig()), named(22))
	var behind bool
	if err := conn.QueryRow(t.Context(), "SELECT roost.number_entities() OR (SELECT last_value FROM roost.entity_id) < (SELECT max(id) FROM roost.entity)").Scan(&behind); err != nil || behind {
		t.Errorf("the sequence is behind: %v", err)
	}
}
