//go:build unix

package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// openLocks opens n handles on one lock.
func openLocks(t *testing.T, n int) (locks []*fileLock) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	for range n {
		l, err := openLock(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.close() })
		locks = append(locks, l)
	}
	return locks
}

// waiter waits for a lock in a goroutine, and returns when that waits in the kernel.
func waiter(t *testing.T, ctx context.Context, l *fileLock) <-chan error {
	t.Helper()
	got := make(chan error, 1)
	go func() { got <- l.lock(ctx) }()
	waits(t, l)
	return got
}

// waits returns when a process waits for a lock in the kernel.
func waits(t *testing.T, l *fileLock) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		wanted := l.wanted
		l.mu.Unlock()
		if wanted {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no process waits for the lock")
		}
	}
}

// TestLockThatNobodyWantsAnyMore: a waiter that gave up keeps no other one from the lock, and may wait again.
func TestLockThatNobodyWantsAnyMore(t *testing.T) {
	l := openLocks(t, 3)
	must(t, l[0].lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	first := waiter(t, ctx, l[1])
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	l[0].unlock()
	must(t, l[2].lock(t.Context()))

	// The second wait of the same handle may meet the first one, which continues in the kernel.
	ctx, cancel = context.WithCancel(t.Context())
	first = waiter(t, ctx, l[1])
	cancel()
	<-first
	second := make(chan error, 1)
	go func() { second <- l[1].lock(t.Context()) }()
	l[2].unlock()
	must(t, <-second)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l[0].lock(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two hold the lock: %v", err)
	}
	l[1].unlock()
	must(t, l[0].lock(t.Context()))
}

// TestLockOfAClosedHandle: a wait in the kernel that continues when its handle is closed holds nothing afterwards.
func TestLockOfAClosedHandle(t *testing.T) {
	l := openLocks(t, 3)
	must(t, l[0].lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	got := waiter(t, ctx, l[1])
	cancel()
	<-got
	must(t, l[1].close())
	l[0].unlock()
	must(t, l[2].lock(t.Context()))
}

// TestLockErrors: a file system without locks is named as the cause, and what to do about it.
func TestLockErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOLCK, syscall.EIO} {
		err := lockError("/data/j.db-turn", errno)
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), "/data/j.db-turn") || strings.Contains(err.Error(), "local disk") == (errno == syscall.EIO) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// TestWritersTakeTurns: while one handle has locked the writes, or writes, another one waits, and is
// admitted before the first one is admitted again.
func TestWritersTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	a, b := openBackend(t, path), openBackend(t, path)
	must(t, a.LockWrites(t.Context()))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	claim := []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: 1, Owner: 1}}}
	if _, err := b.Commit(short, claim); !errors.Is(err, journal.ErrNotCommitted) {
		t.Errorf("a second writer: %v, want ErrNotCommitted", err)
	}
	got := make(chan error, 1)
	go func() { got <- b.LockWrites(t.Context()) }()
	waits(t, b.lock.queue)
	_, err := a.Commit(t.Context(), claim)
	must(t, err)
	must(t, <-got)
	if err := a.LockWrites(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the first writer overtakes the second one: %v", err)
	}
	_, err = b.Commit(t.Context(), claim)
	must(t, err)
	must(t, a.LockWrites(t.Context()))
	if _, err := a.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err != nil {
		t.Error(err)
	}
	must(t, b.LockWrites(t.Context()))
	b.UnlockWrites() // it has nothing to write after all
	must(t, a.LockWrites(t.Context()))
}

// TestTurnThatDoesNotCome: a process that is paused may have the turn, but not SQLite's lock. The others write without
// their turn, and take turns again when it continues.
func TestTurnThatDoesNotCome(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	a := openBackend(t, path)
	a.lock.patience = time.Millisecond
	epoch := sharding.Epoch(0)
	commit := func() {
		t.Helper()
		epoch++
		must(t, a.LockWrites(t.Context()))
		r, err := a.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}}})
		if err != nil || r[0].Verdict != sharding.Durable {
			t.Fatal(r, err)
		}
	}
	for _, suffix := range []string{queueSuffix, writerSuffix} {
		paused, err := openLock(path + suffix)
		must(t, err)
		must(t, paused.lock(t.Context()))
		commit()
		a.lock.patience = time.Hour // it is known to be late
		commit()
		must(t, paused.close())
		for a.lock.queue.waits() || a.lock.writer.waits() {
			time.Sleep(time.Millisecond)
		}
		must(t, a.LockWrites(t.Context()))
		if !a.lock.holdsWriter {
			t.Error(suffix, "came, and is not taken")
		}
		a.UnlockWrites()
		a.lock.patience = time.Millisecond
	}
}
