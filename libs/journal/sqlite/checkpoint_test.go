package sqlite

import (
	"context"
	"database/sql"
	"math"
	"path/filepath"
	"testing"

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
		reader, err := b.readDB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
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
