//go:build linux

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

var (
	shard = sharding.ShardID{Type: "Account", Index: 3}
	alice = sharding.Entity{Type: "Account", ID: "alice"}
)

func claim(e sharding.Epoch) journal.Op {
	return journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: e, Owner: 1}}
}

func add(e sharding.Epoch, to sharding.Entity, seq uint64) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: e, Entity: to,
		Records: []sharding.Record{{Seq: seq, Command: sharding.CommandID(fmt.Sprint("c", seq))}}}}
}

func fence(e sharding.Epoch) journal.Op {
	return journal.Op{Fence: &sharding.ReadFence{Shard: shard, Epoch: e}}
}

// mustCommit wants one operation to be durable.
func mustCommit(t *testing.T, b *Backend, op journal.Op) {
	t.Helper()
	if r, err := b.Commit(t.Context(), []journal.Op{op}); err != nil || r[0].Verdict != sharding.Durable {
		t.Fatalf("%s: %v, %v", op.Kind(), r, err)
	}
}

// connect is a connection besides the backend's.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// TestServerGone lets the server go away and come back between batches and
// under a load, and lets the journal settle what is unknown.
func TestServerGone(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	cfg := journal.DefaultConfig()
	b := openAt(t, url, cfg)
	mustCommit(t, b, claim(1))
	seq := uint64(0)
	for _, end := range []func(){server.Stop, server.Kill} {
		seq++
		mustCommit(t, b, add(1, alice, seq))
		end()
		for range 3 {
			_, err := b.Commit(t.Context(), []journal.Op{add(1, alice, seq+1)})
			if err == nil || errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrBroken) {
				t.Fatalf("a commit without a server: %v", err)
			}
			if _, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice}); err == nil || errors.Is(err, journal.ErrCorrupt) {
				t.Fatalf("a load without a server: %v", err)
			}
		}
		// By now no connection is left that could have brought it there.
		if _, err := b.Commit(t.Context(), []journal.Op{add(1, alice, seq+1)}); !errors.Is(err, journal.ErrNotCommitted) {
			t.Fatalf("a commit that was never sent: %v", err)
		}
		server.Run()
		l, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice})
		for range cfg.Loads { // a connection of before may be tried first
			if err != nil {
				l, err = b.Load(t.Context(), journal.LoadRequest{Entity: alice})
			}
		}
		if err != nil || l.LastSeq != seq {
			t.Fatalf("last record %d, want %d; %v", l.LastSeq, seq, err)
		}
	}
	mustCommit(t, b, add(1, alice, seq+1))
}

// TestConnectionLostAtCommit breaks the connection while the server works on
// the batch: the outcome is unknown, and the server ends it either way.
func TestConnectionLostAtCommit(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	mustCommit(t, b, claim(1))
	other, observer := connect(t, url), connect(t, url) // within a transaction, pg_stat_activity stays as it was first seen
	mustExec(t, other, "BEGIN")
	mustExec(t, other, "SELECT 1 FROM roost.fence FOR UPDATE")
	got := make(chan error, 1)
	go func() {
		_, err := b.Commit(context.Background(), []journal.Op{add(1, alice, 1)})
		got <- err
	}()
	killed := 0
	for killed == 0 { // until the batch waits for the lock
		if len(got) > 0 {
			t.Fatalf("the batch did not wait: %v", <-got)
		}
		if err := observer.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%append_records%'`).Scan(&killed); err != nil {
			t.Fatal(err)
		}
	}
	err := <-got
	if err == nil || errors.Is(err, journal.ErrNotCommitted) || errors.Is(err, journal.ErrFull) {
		t.Fatalf("a commit whose connection was lost: %v", err)
	}
	mustExec(t, other, "ROLLBACK")
	mustCommit(t, b, add(1, alice, 1)) // settles it
}

// TestLocksEnd: a lock that another session holds makes a batch fail in time,
// with a certain outcome, and a reader of the fence does not wait.
func TestLocksEnd(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	cfg := journal.DefaultConfig()
	cfg.CommitTimeout = 4 * time.Second
	b := openAt(t, url, cfg)
	mustCommit(t, b, claim(1))
	other := connect(t, url)
	mustExec(t, other, "BEGIN")
	mustExec(t, other, "SELECT 1 FROM roost.fence FOR UPDATE")
	if _, err := b.Commit(t.Context(), []journal.Op{add(1, alice, 1)}); !errors.Is(err, journal.ErrNotCommitted) {
		t.Fatalf("a commit behind a lock: %v", err)
	}
	mustCommit(t, b, fence(1))
	mustExec(t, other, "ROLLBACK")
	mustCommit(t, b, add(1, alice, 1))
}

// TestFenceIsLocked: no claim passes while an append is in progress, and the other
// way round, and at most one write of an entity is in progress.
func TestFenceIsLocked(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	mustCommit(t, b, claim(1))
	one, two := connect(t, url), connect(t, url)
	mustExec(t, two, "SET lock_timeout = '200ms'")
	mustCommit(t, b, add(1, alice, 1))
	snapshot := journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: 1, Entity: alice, Snapshot: journal.Snapshot{Seq: 1}}}
	carol := sharding.Entity{Type: "Account", ID: "carol"} // has no row yet
	for n, c := range []struct{ first, second journal.Op }{
		{add(1, alice, 2), claim(2)}, {claim(2), add(1, alice, 2)}, {claim(2), claim(3)}, {snapshot, claim(2)},
		{add(1, alice, 2), add(1, alice, 2)}, {add(1, alice, 2), snapshot}, {snapshot, add(1, alice, 2)}, {add(1, carol, 1), add(1, carol, 1)},
	} {
		for way := range 4 { // the function that each of them uses
			mustExec(t, one, "BEGIN")
			sql, args := statement(b, c.first, way&1 != 0)
			mustExec(t, one, sql, args...)
			sql, args = statement(b, c.second, way&2 != 0)
			if _, err := two.Exec(t.Context(), sql, args...); state(err) != "55P03" {
				t.Errorf("%d: %s during %s: %v, want it to wait", n, c.second.Kind(), c.first.Kind(), err)
			}
			mustExec(t, one, "ROLLBACK")
		}
	}
	// Appends of one shard do not wait for each other.
	mustExec(t, one, "BEGIN")
	sql, args := statement(b, add(1, alice, 2), true)
	mustExec(t, one, sql, args...)
	mustCommit(t, b, add(1, sharding.Entity{Type: "Account", ID: "bob"}, 1))
	mustCommit(t, b, add(1, sharding.Entity{Type: "Account", ID: "bob"}, 2))
	mustExec(t, one, "ROLLBACK")
}

// statement is the statement that commits one operation, if it can be by append_records.
func statement(b *Backend, op journal.Op, byAppend bool) (sql string, args []any) {
	ops, now := []journal.Op{op}, b.clock.Now()
	if x := newAppends(ops, now.Wall, &b.cfg); x != nil && byAppend {
		return appendSQL, append(b.opened(), x.args(now)...)
	}
	return commitSQL, b.commitArgs(ops, now)
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		severity, code string
		want           error
	}{
		{"ERROR", "40001", journal.ErrNotCommitted}, {"ERROR", "40P01", journal.ErrNotCommitted}, {"ERROR", "57014", journal.ErrNotCommitted},
		{"ERROR", "25006", journal.ErrNotCommitted}, {"ERROR", "53100", journal.ErrFull},
		{"FATAL", "57P01", nil}, {"FATAL", "53100", nil}, {"PANIC", "XX000", nil},
	} {
		err := classify(fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: "übersetzt", SeverityUnlocalized: c.severity, Code: c.code}))
		for _, is := range []error{journal.ErrNotCommitted, journal.ErrFull, journal.ErrBroken} {
			if errors.Is(err, is) != (is == c.want) {
				t.Errorf("%s %s: %v", c.severity, c.code, err)
			}
		}
	}
	if err := classify(errors.New("connection reset by peer")); errors.Is(err, journal.ErrNotCommitted) || errors.Is(err, journal.ErrFull) {
		t.Errorf("a lost connection: %v", err)
	}
}

// TestEntityIsLocked: a write of an entity which waited for another one
// begins where that one ended.
func TestEntityIsLocked(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	mustCommit(t, b, claim(1))
	mustCommit(t, b, add(1, alice, 1))
	other := connect(t, url)
	// behindSQL commits second while a statement holds its locks, and then the statement.
	behindSQL := func(second journal.Op, sql string, args ...any) error {
		mustExec(t, other, "BEGIN")
		mustExec(t, other, sql, args...)
		got := make(chan error, 1)
		go func() {
			_, err := b.Commit(context.Background(), []journal.Op{second})
			got <- err
		}()
		for waiting := 0; waiting == 0; {
			if len(got) > 0 {
				t.Fatalf("the %s did not wait: %v", second.Kind(), <-got)
			}
			if err := other.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting); err != nil {
				t.Fatal(err)
			}
		}
		mustExec(t, other, "COMMIT")
		return <-got
	}
	behind := func(first, second journal.Op) error {
		sql, args := statement(b, first, true)
		return behindSQL(second, sql, args...)
	}
	snapshot := journal.WriteSnapshot{Shard: shard, Epoch: 1, Entity: alice, Snapshot: journal.Snapshot{Seq: 1}}
	if err := behind(add(1, alice, 2), journal.Op{Snapshot: &snapshot}); err != nil {
		t.Fatal(err)
	}
	if l, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice}); err != nil || l.LastSeq != 2 || l.Snapshot.Seq != 1 {
		t.Fatalf("afterwards: %+v, %v", l, err)
	}
	// One that expects what the other one has changed is refused, and writes nothing.
	if err := behind(add(1, alice, 3), add(1, alice, 3)); err != nil {
		t.Fatal(err)
	}
	if l, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice}); err != nil || l.LastSeq != 3 {
		t.Fatalf("afterwards: %+v, %v", l, err)
	}
	// So is one whose key has expired for the other one, although the row has the expected number.
	now := time.Now()
	if err := behindSQL(withKey(4, keyAt(now)), "UPDATE roost.entity SET dropped = $1 WHERE name = 'alice'", now.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	if l, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice}); err != nil || l.LastSeq != 3 {
		t.Fatalf("afterwards: %+v, %v", l, err)
	}
	// An entity without a row cannot be locked: who comes second is refused by append_records, and begins again in commit_batch.
	bob, carol := sharding.Entity{Type: "Account", ID: "bob"}, sharding.Entity{Type: "Account", ID: "carol"}
	if err := behind(add(1, bob, 1), add(1, bob, 1)); err != nil {
		t.Fatalf("the second first append: %v", err)
	}
	if l, err := b.Load(t.Context(), journal.LoadRequest{Entity: bob}); err != nil || l.LastSeq != 1 || len(l.Records) != 1 {
		t.Fatalf("afterwards: %+v, %v", l, err)
	}
	two := add(1, carol, 1)
	two.Append.Records = append(two.Append.Records, sharding.Record{Seq: 2})
	if err := behind(two, two); !errors.Is(err, journal.ErrNotCommitted) {
		t.Fatalf("the second first append of two records: %v", err)
	}
}

// TestOpenTogether lets the processes of a new cluster find an empty database at
// the same time.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	got := make(chan error)
	for i := range 8 {
		go func() {
			b, err := Open(context.Background(), url, journal.DefaultConfig())
			if err == nil {
				types := []sharding.TypeDesc{{Type: "Account", Shards: 8}, {Type: sharding.EntityType(fmt.Sprint("Cart", i%2)), Shards: uint32(i%2) + 1}}
				_, err = b.Declare(context.Background(), journal.Declaration{Cluster: "blue", Types: types})
				err = errors.Join(err, b.Close())
			}
			got <- err
		}()
	}
	for range 8 {
		// Others may be in the way of a declaration; the journal repeats it.
		if err := <-got; err != nil && !errors.Is(err, journal.ErrNotCommitted) {
			t.Error(err)
		}
	}
}

// TestDeclareOnce: the server itself refuses a declaration that contradicts a
// later one of another process.
func TestDeclareOnce(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	conn := connect(t, url)
	for _, c := range []struct {
		cluster    string
		format     int
		generation sharding.Generation
		name       string
		shards     int64
		want       bool
	}{
		{"blue", journal.Format, b.generation, "Account", 8, true}, {"blue", journal.Format, b.generation, "Account", 8, true},
		{"blue", journal.Format, b.generation, "Account", 9, false}, {"green", journal.Format, b.generation, "Cart", 8, false},
		{"blue", journal.Format, b.generation + 1, "Cart", 8, false}, {"blue", journal.Format - 1, b.generation, "Cart", 8, false},
		{"blue", journal.Format, b.generation, "Cart", 7, true},
	} {
		var stored bool
		if err := conn.QueryRow(t.Context(), declareSQL, c.format, int64(c.generation), c.cluster, []string{c.name}, []int64{c.shards}).Scan(&stored); err != nil || stored != c.want {
			t.Errorf("%+v: %v, %v", c, stored, err)
		}
	}
	f, err := b.Declare(t.Context(), journal.Declaration{})
	if want := fmt.Sprintf("{blue %[1]d %[1]d %[1]d %[2]v [{Account 8} {Cart 7}] 0.0}", journal.Format, b.generation); err != nil || fmt.Sprint(f) != want {
		t.Errorf("facts are %v (%v), want %v", f, err, want)
	}
}

// TestStandby: a standby that lags does not know the present owner of a shard, nor the newest data. So a journal is never there, even
// if nothing else can be reached.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	mustCommit(t, b, claim(1))
	mustCommit(t, b, add(1, alice, 1))
	standby := server.Standby()
	if err := standby.Exec(name, "SELECT pg_wal_replay_pause()"); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, b, claim(2))
	first := standby.URL(postgrestest.Superuser, name)
	if there, err := Open(t.Context(), first, journal.DefaultConfig()); err == nil {
		t.Cleanup(func() { _ = there.Close() })
		results, err := there.Commit(t.Context(), []journal.Op{fence(1)})
		t.Errorf("the journal was opened at a standby; a fence read at an old epoch gives %+v, %v there", results, err)
	} else if !errors.Is(err, journal.ErrUnreachable) || !strings.Contains(err.Error(), "standby") {
		t.Errorf("open at a standby: %v", err)
	}
	dir := func(u string) string { _, dir, _ := strings.Cut(u, "host="); return dir }
	both := openAt(t, first+","+dir(url), journal.DefaultConfig())
	mustCommit(t, both, fence(2))
	if results, err := both.Commit(t.Context(), []journal.Op{fence(1)}); err != nil || results[0].Verdict != sharding.RefusedEpoch {
		t.Errorf("an old epoch passes the fence: %+v, %v", results, err)
	}
}

// TestOtherFormat: the schema of a later release is left alone after its
// activation, and so is one without the mark.
func TestOtherFormat(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err != nil {
		t.Fatal(err)
	}
	if err := server.Exec(name, "UPDATE roost.meta SET min_writer = min_writer + 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), url, journal.DefaultConfig()); !errors.Is(err, journal.ErrIdentity) {
		t.Fatalf("open: %v", err)
	}
	if err := server.Exec(name, "ALTER TABLE roost.meta DROP COLUMN min_writer"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), url, journal.DefaultConfig()); !errors.Is(err, journal.ErrUnmarked) {
		t.Fatalf("open: %v", err)
	}
}
