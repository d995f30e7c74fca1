package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestCheckpoint lets the log grow with and without a reader that holds on to
// it.
func TestCheckpoint(t *testing.T) {
	b, err := Open(context.Background(), filepath.Join(t.TempDir(), "j.db"), journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	ctx, c := context.Background(), &b.checkpoints
	b.pagesSinceCheck = math.MinInt / 2 // checkpoints come when the test wants them
	flights := newLoad("checkpoint")
	if _, err := b.Commit(ctx, []journal.Op{{Claim: &sharding.Claim{Shard: benchShard, Epoch: 1, Owner: 1}}}); err != nil {
		t.Fatal(err)
	}
	pages := func() int {
		t.Helper()
		l, err := c.exec(c.state)
		if err != nil {
			t.Fatal(err)
		}
		return l.pages
	}
	writeSome := func(n int) {
		t.Helper()
		results, err := b.Commit(ctx, flights.batch(n))
		if err != nil || results[0].Verdict != sharding.Durable {
			t.Fatal(results, err)
		}
	}
	write := func() { t.Helper(); writeSome(64) }
	growTo := func(n int) {
		t.Helper()
		for pages() < n {
			write()
		}
	}
	checkpoint := func() {
		t.Helper()
		if err := c.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}

	growTo(checkpointPages)
	checkpoint()
	write()
	if n := pages(); n >= checkpointPages {
		t.Fatalf("%d pages of log after a checkpoint", n)
	}

	read := func() *sql.Tx {
		t.Helper()
		reader, err := b.reads.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := reader.QueryRow("SELECT count(*) FROM record").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return reader
	}

	// What comes after the passes is copied while holding the queue.
	growTo(checkpointPages)
	reader := read()
	if _, err := c.exec(c.passive); err != nil {
		t.Fatal(err)
	}
	writeSome(1)
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	checkpoint()
	write()
	if n := pages(); n >= checkpointPages {
		t.Fatalf("%d pages of log after the last part was copied", n)
	}

	reader = read()
	growTo(checkpointPages)
	checkpoint()
	write()
	long := pages()
	if long < checkpointPages || c.threshold < 2*checkpointPages {
		t.Fatalf("the log started again under a reader: %d pages, next at %d", long, c.threshold)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	checkpoint()
	write()
	if n := pages(); n < long {
		t.Fatalf("writers were held up again at %d pages, %d after the last time", n, n-long)
	}
	growTo(c.threshold)
	checkpoint()
	write()
	if n := pages(); n >= checkpointPages {
		t.Fatalf("%d pages of log after the reader has gone", n)
	}
	if checkpoint(); c.threshold != checkpointPages {
		t.Fatalf("the next checkpoint is at %d pages of log", c.threshold)
	}
}

// TestLogThatCannotBeCopied: a page of the log cannot be read. That ends none of the
// processes that meet it: each says so, continues, and tries again, not too often. When the
// page can be read, the log is copied, and each reports that too.
func TestLogThatCannotBeCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "j.db")
		type process struct {
			*Backend
			mu   sync.Mutex
			said []error
		}
		// heard returns what a process has said since it was asked last.
		heard := func(p *process) []error {
			p.mu.Lock()
			defer p.mu.Unlock()
			said := p.said
			p.said = nil
			return said
		}
		processes := make([]*process, 2)
		for i := range processes {
			d, err := Open(t.Context(), path, journal.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			p := &process{Backend: d}
			d.pagesSinceCheck = math.MinInt / 2 // checkpoints come when the test wants them
			d.NotifyUpkeep(func(err error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.said = append(p.said, err)
			})
			t.Cleanup(func() { _ = d.Close() })
			processes[i] = p
		}
		first := processes[0]
		c, flights := &first.checkpoints, newLoad("uncopied")
		commit := func(ops ...journal.Op) {
			t.Helper()
			if _, err := first.Commit(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
		}
		commit(journal.Op{Claim: &sharding.Claim{Shard: benchShard, Epoch: 1, Owner: 1}})
		state := func() logState {
			t.Helper()
			l, err := c.exec(c.state)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		for state().pages < checkpointPages {
			commit(flights.batch(64)...)
		}

		_, _, bit := pickLeaf(t, path+"-wal", rand.New(rand.NewPCG(1, 1)))
		badFrame := (int64(bit/8) - logHeader) / (frameHeader + pageSize)
		read, failure := shim.log.read, new(atomic.Int32)
		shim.log.read = func(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
			// Of a log that has started again, any frame may be the one to fail: that one
			// need not be copied.
			at := logHeader + badFrame*(frameHeader+pageSize) + frameHeader
			if rc := failure.Load(); rc != 0 && n >= pageSize && (rc == lib.SQLITE_IOERR_FSYNC || offset <= at && at < offset+int64(n)) {
				return rc
			}
			return read(tls, file, buf, n, offset)
		}
		t.Cleanup(func() { shim.log.read = read })
		failure.Store(lib.SQLITE_IOERR_READ)
		for _, p := range processes {
			p.checkpoints.checks <- struct{}{}
			synctest.Wait()
			if said := heard(p); len(said) != 1 || said[0] == nil || !strings.Contains(said[0].Error(), "disk I/O error") {
				t.Fatalf("a process whose log cannot be copied says %v", said)
			}
			time.Sleep(checkpointRetry / 2) // two that try again at the same time are in each other's way
		}
		for range 60 { // an hour in which many checks are due
			time.Sleep(time.Minute)
			for _, p := range processes {
				p.checkpoints.checks <- struct{}{}
			}
			synctest.Wait()
		}
		commit(journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "Other"}, Epoch: 1, Owner: 1}})
		for _, p := range processes {
			if lost := p.broken.Load(); lost != nil {
				t.Errorf("a process ends: %v", *lost)
			}
			if n := len(heard(p)); n < 50 || n > 80 {
				t.Errorf("the log was copied in vain %d times within an hour", n)
			}
		}

		failure.Store(0)
		time.Sleep(checkpointRetryMost)
		synctest.Wait()
		for _, p := range processes {
			if said := heard(p); len(said) != 1 || said[0] != nil {
				t.Errorf("a process whose log can be copied says %v", said)
			}
		}
		if l := state(); l.remaining() > 0 {
			t.Errorf("the log is not copied: %+v", l)
		}

		// A failed fsync is another matter, here by its code alone: the process ends.
		for state().pages < checkpointPages || state().remaining() == 0 {
			commit(flights.batch(64)...)
		}
		failure.Store(lib.SQLITE_IOERR_FSYNC)
		first.checkpoints.checks <- struct{}{}
		synctest.Wait()
		if lost := first.broken.Load(); lost == nil || !errors.Is(*lost, journal.ErrBroken) {
			t.Error("a process continues after a failed fsync of a checkpoint")
		}
	})
}
