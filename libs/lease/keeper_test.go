package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

// moody is a store in memory that can be slow, hang or fail.
type moody struct {
	memory.Backend
	mu    sync.Mutex
	delay time.Duration
	hang  chan struct{} // requests wait for it to be closed, whatever ctx says
	fail  bool
	calls int
	under int // calls in progress
	most  int
}

func (m *moody) enter(ctx context.Context) error {
	m.mu.Lock()
	m.calls++
	m.under++
	m.most = max(m.most, m.under)
	delay, hang, fail := m.delay, m.hang, m.fail
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.under--
		m.mu.Unlock()
	}()
	if hang != nil {
		<-hang
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(delay):
	}
	if fail {
		return errors.New("no such luck")
	}
	return nil
}

func (m *moody) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *moody) Get(ctx context.Context, name string) (lease.Record, error) {
	if err := m.enter(ctx); err != nil {
		return lease.Record{}, err
	}
	return m.Backend.Get(ctx, name)
}

func (m *moody) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	if err := m.enter(ctx); err != nil {
		return false, err
	}
	return m.Backend.Swap(ctx, name, old, next)
}

// runner runs a Keeper and keeps its events.
type runner struct {
	*lease.Keeper
	stop context.CancelFunc
	done chan struct{}
	mu   sync.Mutex
	said []lease.Output
	slow time.Duration // notify takes as long
}

func launch(t *testing.T, s lease.Backend, uid sharding.NodeUID, rank int, log *slog.Logger) *runner {
	t.Helper()
	c := lease.DefaultConfig()
	c.Self = sharding.NodeID{Addr: "10.0.0.1:7000", UID: uid}
	c.Rank = rank
	k, err := lease.NewKeeper(s, "coordinator", c, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{Keeper: k, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		k.Run(ctx, func(o lease.Output) {
			if _, ok := k.Valid(); ok && isLost(o) {
				t.Error("valid while it learns that the lease is lost")
			}
			r.mu.Lock()
			r.said = append(r.said, o)
			slow := r.slow
			r.mu.Unlock()
			time.Sleep(slow)
		})
	}()
	return r
}

func isLost(o lease.Output) bool {
	_, lost := o.(lease.Lost)
	return lost
}

// count counts what was said of a kind.
func count[T lease.Output](r *runner) (n int, last T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.said {
		if x, ok := o.(T); ok {
			n, last = n+1, x
		}
	}
	return n, last
}

func (r *runner) wantTerm(t *testing.T, want sharding.Term) {
	t.Helper()
	if term, ok := r.Valid(); !ok || term != want {
		t.Errorf("term is %d, %v; want %d", term, ok, want)
	}
}

func (r *runner) wantNone(t *testing.T) {
	t.Helper()
	if term, ok := r.Valid(); ok {
		t.Errorf("holds term %d, want none", term)
	}
}

func TestKeeperHandsOverOnStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{delay: 5 * time.Millisecond}
		a, b := launch(t, s, 1, 0, nil), launch(t, s, 2, 1, nil)
		time.Sleep(10 * time.Second)
		a.wantTerm(t, 1)
		b.wantNone(t)
		if n, _ := count[lease.Renewed](a); n < 18 || n > 26 {
			t.Errorf("%d renewals in 10 s, want about 22", n)
		}
		if _, seen := count[lease.Observed](b); seen.Holder.UID != 1 || seen.Term != 1 {
			t.Errorf("the standby sees %+v active", seen)
		}
		a.stop()
		<-a.done
		a.wantNone(t)
		if n, _ := count[lease.Released](a); n != 1 {
			t.Errorf("released %d times", n)
		}
		time.Sleep(time.Second) // within the TTL
		b.wantTerm(t, 2)
		b.stop()
		<-b.done
	})
}

func TestKeeperRaisesAndRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := launch(t, &moody{}, 1, -1, nil)
		time.Sleep(5 * time.Second)
		r.wantNone(t)
		r.SetRank(0)
		time.Sleep(100 * time.Millisecond)
		r.wantTerm(t, 1)
		r.RaiseTerm(8)
		time.Sleep(100 * time.Millisecond)
		r.wantTerm(t, 9)
		if n, last := count[lease.Acquired](r); n != 2 || last.Term != 9 {
			t.Errorf("acquired %d times, last %+v", n, last)
		}
		r.stop()
		<-r.done
		r.SetRank(3) // no goroutine listens any more, which does no harm
	})
}

// A store that hangs, deaf to every deadline, costs the lease on time and a
// bounded number of goroutines; when it wakes up everything continues.
func TestKeeperWithHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{}
		r := launch(t, s, 1, 0, nil)
		time.Sleep(time.Second)
		r.wantTerm(t, 1)
		hang := make(chan struct{})
		s.set(func() { s.hang = hang })
		time.Sleep(1800 * time.Millisecond)
		r.wantNone(t)
		time.Sleep(time.Minute)
		if n, _ := count[lease.Lost](r); n != 1 {
			t.Errorf("lost %d times, want once", n)
		}
		s.set(func() {
			if s.most > 8 {
				t.Errorf("%d requests hang, want at most 8", s.most)
			}
			s.hang = nil
		})
		close(hang)
		time.Sleep(3 * time.Second)
		if term, ok := r.Valid(); !ok || term < 2 {
			t.Errorf("term is %d, %v; want a new one", term, ok)
		}
		r.stop()
		<-r.done
	})
}

// Valid does not depend on the loop: here it is stuck in notify.
func TestKeeperValidWithStuckLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := launch(t, &moody{}, 1, 0, nil)
		time.Sleep(10 * time.Millisecond)
		r.wantTerm(t, 1)
		r.mu.Lock()
		r.slow = 10 * time.Second
		r.mu.Unlock()
		time.Sleep(2400 * time.Millisecond)
		r.wantNone(t)
		r.mu.Lock()
		r.slow = 0
		r.mu.Unlock()
		r.stop()
		<-r.done
	})
}

func TestKeeperWithFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		s := &moody{}
		r := launch(t, s, 1, 0, slog.New(slog.NewTextHandler(&buf, nil)))
		time.Sleep(time.Second)
		s.set(func() { s.fail, s.calls = true, 0 })
		time.Sleep(time.Minute)
		r.wantNone(t)
		s.set(func() {
			if s.calls > 700 {
				t.Errorf("%d requests in a minute to a store that fails", s.calls)
			}
			s.fail = false
		})
		time.Sleep(time.Second)
		if _, ok := r.Valid(); !ok {
			t.Error("not acquired again")
		}
		r.stop()
		<-r.done
		if n := strings.Count(buf.String(), "\n"); n != 2 {
			t.Errorf("want one line for the failure and one for the recovery, got\n%s", buf.String())
		}
	})
}

func TestKeeperWithSlowStoreKeepsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{delay: 450 * time.Millisecond}
		r := launch(t, s, 1, 0, nil)
		time.Sleep(time.Minute)
		if n, _ := count[lease.Lost](r); n != 0 {
			t.Errorf("lost %d times over a slow store", n)
		}
		r.wantTerm(t, 1)
		r.stop()
		<-r.done
	})
}

func TestKeeperStopsWithDeadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{}
		r := launch(t, s, 1, 0, nil)
		time.Sleep(time.Second)
		s.set(func() { s.fail = true })
		r.stop()
		began := time.Now()
		<-r.done
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("stopping took %v, want at most about a TTL", took)
		}
	})
}

func TestNewKeeperRefuses(t *testing.T) {
	c := lease.DefaultConfig()
	if _, err := lease.NewKeeper(memory.New(), "coordinator", c, nil); !errors.Is(err, lease.ErrConfig) {
		t.Errorf("no Self gives %v", err)
	}
	c.Self = sharding.NodeID{Addr: "a:1", UID: 1}
	for _, name := range []string{"", "a/b", "1a", strings.Repeat("x", 200)} {
		if _, err := lease.NewKeeper(memory.New(), name, c, nil); !errors.Is(err, lease.ErrConfig) {
			t.Errorf("name %q gives %v", name, err)
		}
	}
}

// readOnly is a store that forgets how to write.
type readOnly struct {
	memory.Backend
	mu   sync.Mutex
	deny bool
}

func (r *readOnly) set(deny bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deny = deny
}

func (r *readOnly) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	r.mu.Lock()
	deny := r.deny
	r.mu.Unlock()
	if deny {
		return false, errors.New("read-only")
	}
	return r.Backend.Swap(ctx, name, old, next)
}

// A standby only reads, so nothing but its self-test finds that it could not
// take over.
func TestSelfTestFindsAStoreThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &readOnly{}
		standby := launch(t, s, 1, -1, nil)
		synctest.Wait()
		if err := standby.Usable(); err != nil {
			t.Fatalf("a good store is not usable: %v", err)
		}
		s.set(true)
		time.Sleep(time.Hour + time.Second)
		if err := standby.Usable(); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("an hour after it became read-only, the store is usable: %v", err)
		}
		s.set(false)
		time.Sleep(11 * time.Second)
		if err := standby.Usable(); err != nil {
			t.Errorf("it is written again, and not usable: %v", err)
		}
		standby.stop()
		<-standby.done
	})
}

// A store that is full or read-only answers reads. It is unusable all the same, and
// one line says so, until it takes a write.
func TestUsableNeedsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		s := &readOnly{}
		k := launch(t, s, 1, 0, slog.New(slog.NewTextHandler(&buf, nil)))
		standby := launch(t, s, 2, 1, nil)
		time.Sleep(time.Second)
		s.set(true)
		time.Sleep(time.Minute)
		for _, r := range []*runner{k, standby} {
			if err := r.Usable(); err == nil || !strings.Contains(err.Error(), "read-only") {
				t.Errorf("nothing can be written, and the store is usable: %v", err)
			}
		}
		s.set(false)
		time.Sleep(5 * time.Second)
		for _, r := range []*runner{k, standby} { // one of them writes, the other one sees it
			if err := r.Usable(); err != nil {
				t.Errorf("it is written again, and not usable: %v", err)
			}
		}
		k.stop()
		<-k.done
		standby.stop()
		<-standby.done
		if n := strings.Count(buf.String(), "\n"); n != 2 {
			t.Errorf("want one line for the failure and one for the recovery, got\n%s", buf.String())
		}
	})
}

// A store that does not answer is unusable after a TTL, and usable at its first
// answer.
func TestUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{}
		k := launch(t, m, 1, 0, nil)
		time.Sleep(time.Second)
		m.set(func() { m.fail = true })
		time.Sleep(1500 * time.Millisecond)
		if err := k.Usable(); err != nil {
			t.Errorf("unusable within the TTL: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := k.Usable(); err == nil || !strings.Contains(err.Error(), "no such luck") {
			t.Errorf("without an answer for longer than the TTL it is usable: %v", err)
		}
		m.set(func() { m.fail = false })
		time.Sleep(time.Second)
		if err := k.Usable(); err != nil {
			t.Errorf("it answers, and is not usable: %v", err)
		}
		k.stop()
		<-k.done
	})
}

// The self-tests of many nodes under one name do not hinder each other.
func TestCheckByMany(t *testing.T) {
	var s memory.Backend
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := lease.Check(t.Context(), &s, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
