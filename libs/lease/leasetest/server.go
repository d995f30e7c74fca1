package leasetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

// patience bounds a test's waits, even on a busy machine.
const patience = 60 * time.Second

// Server is a server with records that a test can disturb. Its data survives Kill.
type Server interface {
	Run()
	Kill()
	Pause()
	Resume()
}

// ServerHarness is a server without records where Open looks for them.
type ServerHarness struct {
	Server Server
	// Open opens the records, as each process would. Clean up with t.Cleanup.
	Open func(t *testing.T) lease.Backend
	// Delete removes a record directly in the server.
	Delete func(t *testing.T, name string)
}

// RunServer is the part of the suite for backends of servers: what
// happens while they are down, paused, or have lost a record.
func RunServer(t *testing.T, fresh func(t *testing.T) ServerHarness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h ServerHarness)
	}{
		{"down at start", downAtStart},
		{"down and back", downAndBack},
		{"paused", paused},
		{"deleted", deleted},
		{"keepers", keepers},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, fresh(t)) })
	}
}

// within returns a context for one request that may fail.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// again repeats a request until it succeeds.
func again(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := ask(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		<-ctx.Done() // not before the deadline
	}
}

func getAgain(t *testing.T, s lease.Backend, name string) (r lease.Record) {
	t.Helper()
	again(t, "get "+name, func(ctx context.Context) (err error) {
		r, err = s.Get(ctx, name)
		return err
	})
	return r
}

// downAtStart: a store opens while its server is down, and works when it is up.
func downAtStart(t *testing.T, h ServerHarness) {
	h.Server.Kill()
	s := h.Open(t)
	if _, err := s.Get(within(t, time.Second), "x"); err == nil {
		t.Error("a get without a server has no error")
	}
	if ok, err := s.Swap(within(t, time.Second), "x", none, full); err == nil {
		t.Errorf("a swap without a server says %v", ok)
	}
	h.Server.Run()
	if r := getAgain(t, s, "x"); r != none {
		t.Errorf("a swap without a server left %+v", r)
	}
	put(t, s, "x", none, full, true)
}

// downAndBack: acknowledged writes survive a crash of the server.
func downAndBack(t *testing.T, h ServerHarness) {
	s := h.Open(t)
	put(t, s, "x", none, full, true)
	h.Server.Kill()
	if _, err := s.Get(within(t, time.Second), "x"); err == nil {
		t.Error("a get without a server has no error")
	}
	h.Server.Run()
	if r := getAgain(t, s, "x"); r != full {
		t.Errorf("after the crash the record is %+v, want %+v", r, full)
	}
	put(t, s, "x", none, full, false)
	put(t, s, "x", full, full, true)
}

// paused: a request to a server that hangs ends in time with an unknown outcome. When the
// server continues, the record is the old or the new one, and does not change any more.
func paused(t *testing.T, h ServerHarness) {
	s := h.Open(t)
	put(t, s, "x", none, full, true)
	next := full
	next.Version, next.Nonce = 2, 99
	h.Server.Pause()
	ok, err := s.Swap(within(t, 500*time.Millisecond), "x", full, next)
	h.Server.Resume()
	if err == nil {
		t.Errorf("a swap at a paused server says %v", ok)
	}
	// Whatever its outcome is, the next write settles it.
	last := next
	last.Version, last.Nonce = 0, 100
	again(t, "settle", func(ctx context.Context) error {
		r, err := s.Get(ctx, "x")
		if err != nil {
			return err
		}
		if r != full && r != next {
			t.Fatalf("the record is %+v, want the old or the new one", r)
		}
		ok, err := s.Swap(ctx, "x", r, last)
		if ok {
			last.Version = r.Version + 1
		}
		if err == nil && !ok {
			err = context.DeadlineExceeded // the late write came between
		}
		return err
	})
	if r := getAgain(t, h.Open(t), "x"); r != last {
		t.Errorf("the record is %+v, want %+v", r, last)
	}
}

// deleted: candidates that keep running never use a term twice.
func deleted(t *testing.T, h ServerHarness) {
	l := newLab(t, h.Open(t), 2)
	l.run(time.Second)
	h.Delete(t, "lab")
	l.run(5 * time.Second)
	l.owner()
	if l.top < 2 {
		t.Errorf("after the record was lost, the lease is held in term %d, which is spent", l.top)
	}
	l.restart(l.owner())
	l.run(5 * time.Second)
	if l.owner(); l.top < 3 {
		t.Errorf("the term is %d after 3 acquisitions", l.top)
	}
}

// keepers: with real candidates and crashes of the server, there are never two holders
// at a time, and terms rise.
func keepers(t *testing.T, h ServerHarness) {
	w := &watch{t: t, top: map[sharding.Term]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 3 {
		c := lease.DefaultConfig()
		c.Self, c.Rank = sharding.NodeID{Addr: addr(i), UID: sharding.NodeUID(i + 1)}, i
		k, err := lease.NewKeeper(h.Open(t), "keepers", c, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.all = append(w.all, k)
		running.Go(func() { k.Run(ctx, func(o lease.Output) { w.note(i, o) }) })
	}
	defer func() { stop(); running.Wait() }()
	first := w.until(1)
	h.Server.Kill()
	w.untilNobody()
	h.Server.Run()
	second := w.until(first + 1)
	h.Server.Pause()
	w.untilNobody()
	h.Server.Resume()
	w.until(second + 1)
}

// watch checks real keepers.
type watch struct {
	t   *testing.T
	all []*lease.Keeper

	mu  sync.Mutex
	top map[sharding.Term]int // who acquired it
}

func (w *watch) note(i int, o lease.Output) {
	if a, ok := o.(lease.Acquired); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		if other, twice := w.top[a.Term]; twice {
			w.t.Errorf("keepers %d and %d both acquired term %d", other, i, a.Term)
		}
		w.top[a.Term] = i
	}
}

// look returns the term that is held, 0 if none, and fails the test if there are two.
func (w *watch) look() sharding.Term {
	w.t.Helper()
	var held sharding.Term
	for _, k := range w.all {
		if term, ok := k.Valid(); ok {
			// A term may end between two checks, but the next one cannot be lower.
			if held != 0 && term < held {
				w.t.Errorf("terms %d and %d are held at the same time", held, term)
			}
			held = max(held, term)
		}
	}
	return held
}

func (w *watch) poll(what string, done func(held sharding.Term) bool) sharding.Term {
	w.t.Helper()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-every.C {
		if held := w.look(); done(held) {
			return held
		}
	}
	w.t.Fatalf("after %v: %s", patience, what)
	return 0
}

func (w *watch) until(term sharding.Term) sharding.Term {
	w.t.Helper()
	return w.poll("no candidate holds the lease in a new term", func(held sharding.Term) bool { return held >= term })
}

func (w *watch) untilNobody() {
	w.t.Helper()
	w.poll("the lease is still held without its server", func(held sharding.Term) bool { return held == 0 })
}
