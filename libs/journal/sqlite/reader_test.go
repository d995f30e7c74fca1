//go:build unix

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

var readerShard = sharding.ShardID{Type: "Cart"}

// storeCarts stores a record of each entity.
func storeCarts(t *testing.T, d *Backend, ids ...sharding.EntityID) {
	t.Helper()
	ops := []journal.Op{{Claim: &sharding.Claim{Shard: readerShard, Epoch: 1, Owner: 1}}}
	for _, id := range ids {
		ops = append(ops, journal.Op{Append: &sharding.Append{
			Shard: readerShard, Epoch: 1, Entity: sharding.Entity{Type: "Cart", ID: id}, Records: []sharding.Record{{Seq: 1}},
		}})
	}
	results, err := d.Commit(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Verdict != sharding.Durable {
			t.Fatalf("operation %d is %v", i, r.Verdict)
		}
	}
}

func openBackend(t *testing.T, path string) *Backend {
	t.Helper()
	d, err := Open(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func wantCarts(t *testing.T, r journal.Reader, want int) {
	t.Helper()
	page, err := r.List(t.Context(), journal.ListRequest{Limit: 100})
	if err != nil || len(page) != want {
		t.Fatalf("%d entities, %v; want %d", len(page), err, want)
	}
	for _, e := range page {
		if l, err := r.Load(t.Context(), journal.LoadRequest{Entity: e}); err != nil || l.LastSeq != 1 {
			t.Fatalf("%s: %+v, %v", e, l, err)
		}
	}
}

// TestReaderNeedsNoLock: it opens and reads while another process holds the writers' queue
// and SQLite's write lock, and the writer does not notice it.
func TestReaderNeedsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	storeCarts(t, d, "a", "b")
	queue, err := openLock(path + queueSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer queue.close()
	if err := queue.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.write.begin.Exec(); err != nil { // as a writer that is paused in a transaction
		t.Fatal(err)
	}
	r, err := OpenReader(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantCarts(t, r, 2)
	if err := d.write.rollback.Exec(); err != nil {
		t.Fatal(err)
	}
	queue.unlock()
	storeCarts(t, d, "c")
	wantCarts(t, r, 3)
	// Between its calls it holds nothing: the log is copied completely, and starts again.
	for _, s := range []string{"PASSIVE", "RESTART"} {
		var l logState
		if err := d.checkpoints.conn.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint("+s+")").Scan(&l.busy, &l.pages, &l.copied); err != nil || l.busy || l.remaining() != 0 {
			t.Errorf("%s: %+v, %v", s, l, err)
		}
	}
}

// TestReaderOutlivesTheWriters: it may be the last one that has the file open. It neither
// copies the log nor removes it, and the next writer finds everything.
func TestReaderOutlivesTheWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	storeCarts(t, d, "a")
	r, err := OpenReader(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	wantCarts(t, r, 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	wantCarts(t, r, 1)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the reader has changed the file: %v", err)
	}
	d = openBackend(t, path)
	storeCarts(t, d, "b")
	wantCarts(t, d, 2)
}

// TestReaderOfAClosedFile: with no cluster running. The files that SQLite makes for its
// log belong to the owner of the journal, not to the user that reads.
func TestReaderOfAClosedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	storeCarts(t, d, "a")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	owner := os.Getuid()
	if owner == 0 {
		owner = 65534
		for _, p := range []string{filepath.Dir(path), path, path + queueSuffix, path + writerSuffix, path + markSuffix} {
			if err := os.Chown(p, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := OpenReader(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantCarts(t, r, 1)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != owner || info.Mode().Perm() != 0o600 {
			t.Errorf("%s belongs to %d, mode %v; want %d, 0600", f, s.Uid, info.Mode(), owner)
		}
	}
}

// TestReaderRefuses: a file that is not a journal is left as it is, and named.
func TestReaderRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "empty.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text.db"), []byte(strings.Repeat("no journal ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bare.db"), firstPage(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]string{"none.db": "no such file", "empty.db": "empty", "text.db": "not a database", "bare.db": "no tables", ".": ""} {
		r, err := OpenReader(t.Context(), filepath.Join(dir, name), journal.DefaultConfig())
		if err == nil {
			_ = r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want an error with %q", name, err, part)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the reader has made a file")
	}
}

// TestReaderCannotWrite: not even if it tried.
func TestReaderCannotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	storeCarts(t, d, "a")
	r, err := OpenReader(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, query := range []string{"DELETE FROM record", "PRAGMA query_only(0); DELETE FROM record", "PRAGMA query_only(0); CREATE TABLE mine (x)", "PRAGMA query_only(0); VACUUM"} {
		if _, err := r.db.ExecContext(t.Context(), query); err == nil {
			t.Errorf("%s has succeeded", query)
		}
	}
	wantCarts(t, d, 1)
}

// TestLastCloseCopiesTheLog: what an orderly stop leaves is one file without a log.
func TestLastCloseCopiesTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	a, b := openBackend(t, path), openBackend(t, path)
	storeCarts(t, a, "a")
	for n, d := range []*Backend{a, b} {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(path + "-wal")
		if gone := errors.Is(err, os.ErrNotExist); gone != (n == 1) {
			t.Errorf("after %d of 2 closes: the log is gone: %v", n+1, gone)
		}
	}
	wantCarts(t, openBackend(t, path), 1)
}
