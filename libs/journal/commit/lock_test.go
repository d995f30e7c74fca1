package commit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

// locked is a backend that waits for other handles before it writes.
type locked struct {
	*scripted
	others chan struct{} // closed when no other handle writes; nil: none does
	held   atomic.Bool   // the others wait
	broken atomic.Bool   // loads find that the store must not be used any more
}

func (l *locked) LockWrites(ctx context.Context) error {
	if l.others != nil {
		select {
		case <-l.others:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.held.Store(true)
	return nil
}

func (l *locked) UnlockWrites() { l.held.Store(false) }

func (l *locked) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	if l.broken.Load() {
		return journal.Loaded{}, journal.ErrBroken
	}
	return l.scripted.Load(ctx, req)
}

func openLocked(t *testing.T, obs commit.Observer) (b *bench, d *locked) {
	cfg := journal.DefaultConfig()
	d = &locked{scripted: &scripted{Backend: memory.New(cfg)}}
	b = &bench{T: t, b: d.scripted}
	var err error
	if b.j, err = commit.Open(t.Context(), d, journal.Declaration{Cluster: "blue"}, cfg, obs); err != nil {
		t.Fatal(err)
	}
	b.submit("claim", journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}})
	b.want("claim durable")
	b.b.batches = nil
	d.others = make(chan struct{})
	t.Cleanup(func() { _ = b.j.Close() })
	b.add("a", 1, 0)
	synctest.Wait() // it waits for the others
	return b, d
}

// TestBatchHasWhatCameDuringTheWait: what is submitted while others write is in the batch that
// waits for them.
func TestBatchHasWhatCameDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := openLocked(t, commit.Observer{})
		time.Sleep(time.Second)
		b.add("b", 1, 0)
		b.fence("c")
		if r := b.j.Report(canceled(t), shard); r.Queued != 4 || time.Since(r.CommittingSince) != time.Second {
			t.Errorf("%d wait, and a commit is in progress since %s; want 4 (one is the report's), since a second ago", r.Queued, r.CommittingSince)
		}
		close(d.others)
		b.want("a durable, b durable, c durable")
		b.wantBatches(4)
	})
}

// TestOthersThatDoNotEnd: what waits for them is refused after the longest time of one attempt
// to commit, and the observer counts it.
func TestOthersThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []error
		b, d := openLocked(t, commit.Observer{Batch: func(s commit.BatchStats) {
			if s.Err != nil {
				seen = append(seen, s.Err)
			}
		}})
		b.want("a refused, store full")
		if len(b.b.batches) != 0 || len(seen) != 1 || !errors.Is(seen[0], journal.ErrNotCommitted) {
			t.Errorf("batches %v, observed %v", b.b.batches, seen)
		}
		close(d.others)
		b.add("a", 1, 0)
		b.want("a durable")
	})
}

// TestBrokenWhileLocked: if the journal is found to be broken while a batch waits for others, the batch is not
// committed, and the others can write.
func TestBrokenWhileLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := openLocked(t, commit.Observer{})
		d.broken.Store(true)
		if _, err := b.j.Load(t.Context(), journal.LoadRequest{Entity: sharding.Entity{Type: "Account", ID: "a"}}); !errors.Is(err, journal.ErrBroken) {
			t.Fatal(err)
		}
		close(d.others)
		b.want("a refused, store full")
		synctest.Wait()
		if d.held.Load() {
			t.Error("others cannot write any more")
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
