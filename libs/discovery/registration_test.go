package discovery

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
)

// registry is a Registrar that a test breaks.
type registry struct {
	fake
	entered  map[Peer]time.Time
	ttl      time.Duration
	entering sync.Mutex // held by a test to make Enter hang
}

func (r *registry) TTL() time.Duration { return r.ttl }

func (r *registry) Enter(ctx context.Context, self Peer) error {
	r.entering.Lock()
	defer r.entering.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.err == nil {
		r.entered[self] = time.Now()
	}
	return r.err
}

func (r *registry) Remove(_ context.Context, self Peer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entered, self)
	return r.err
}

func (r *registry) count() (n, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entered), r.calls
}

func register(t *testing.T, b Backend, log *slog.Logger) *Registration {
	t.Helper()
	r, err := NewRegistration(b, peers("region@a:1")[0], DefaultConfig(), log)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegistrationIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		b := &registry{entered: map[Peer]time.Time{}, ttl: 9 * time.Second}
		r := register(t, b, slog.New(slog.NewTextHandler(&buf, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.Run(ctx) }()
		time.Sleep(time.Minute)
		if n, calls := b.count(); n != 1 || calls < 20 || calls > 26 {
			t.Errorf("%d entries, confirmed %d times in a minute of 9 s each", n, calls)
		}
		// Refused for a while: tried again, without a storm, and told once.
		b.set(func() { b.err, b.calls = errors.New("no such luck"), 0 })
		time.Sleep(10 * time.Minute)
		if _, calls := b.count(); calls < 33 || calls > 50 {
			t.Errorf("%d attempts in 10 min of failures", calls)
		}
		if st := r.Stats(); st.Err == nil || !errors.Is(st.Err, ErrRegister) {
			t.Errorf("failing: %+v", st)
		}
		b.set(func() { b.err = nil; clear(b.entered) })
		time.Sleep(20 * time.Second)
		if n, _ := b.count(); n != 1 || r.Stats().Err != nil {
			t.Errorf("%d entries after it has come back: %+v", n, r.Stats())
		}
		// Leaving is permanently, though Run continues.
		if err := r.Leave(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n, _ := b.count(); n != 0 || r.Stats().Entered {
			t.Errorf("%d entries a minute after leaving", n)
		}
		cancel()
		<-done
		if n := strings.Count(buf.String(), "\n"); n != 3 {
			t.Errorf("want three lines in the log, got\n%s", buf.String())
		}
	})
}

func TestRegistrationWithoutRegistrar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t, &fake{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.Run(ctx) }()
		if err := errors.Join(r.Enter(ctx), r.Leave(ctx)); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	})
	if _, err := NewRegistration(&fake{}, Peer{Addr: "a:0"}, DefaultConfig(), nil); !errors.Is(err, ErrConfig) {
		t.Errorf("port 0 gives %v", err)
	}
}

func TestLeaveThatFails(t *testing.T) {
	b := &registry{entered: map[Peer]time.Time{}, ttl: 9 * time.Second}
	r := register(t, b, nil)
	if err := r.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.err = errors.New("no such luck")
	if err := r.Leave(t.Context()); !errors.Is(err, ErrRegister) || !strings.Contains(err.Error(), "9s") {
		t.Errorf("a leave that fails says %v", err)
	}
}

// follower reports changes, or fails to.
type follower struct {
	fake
	changed chan error
}

func (f *follower) Follow(ctx context.Context) ([]Peer, Changed, error) {
	peers, err := f.Peers(ctx)
	return peers, func(ctx context.Context) error {
		select {
		case err := <-f.changed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, err
}

func TestWatchFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &follower{changed: make(chan error, 1)}
		f.peers = peers("a:1")
		w := watch(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx, func(Answer) { told++ }) }()
		time.Sleep(4 * time.Minute)
		if f.calls != 1 {
			t.Errorf("%d lookups without a change", f.calls)
		}
		f.set(func() { f.peers = peers("b:1") })
		f.changed <- nil
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if told != 2 || f.calls != 2 {
			t.Errorf("told %d times after a change, %d lookups", told, f.calls)
		}
		// One that reports changes all the time is not polled all the time.
		f.set(func() { f.calls = 0 })
		for range 1000 {
			select {
			case f.changed <- nil:
			default:
			}
			time.Sleep(time.Millisecond)
		}
		if f.calls < 4 || f.calls > 11 {
			t.Errorf("%d lookups in a second of flapping", f.calls)
		}
		// One that cannot report is polled at intervals.
		f.set(func() { f.calls = 0 })
		for range 60 {
			select {
			case f.changed <- errors.New("forbidden"):
			default:
			}
			time.Sleep(time.Second)
		}
		if f.calls < 40 || f.calls > 62 {
			t.Errorf("%d lookups in a minute of deafness", f.calls)
		}
		// One that never reports anything is polled at last.
		time.Sleep(2 * time.Minute) // the rest is read
		f.set(func() { f.calls = 0 })
		time.Sleep(16 * time.Minute)
		if f.calls < 3 || f.calls > 4 {
			t.Errorf("%d lookups in 16 minutes of silence", f.calls)
		}
		if st := w.Stats(); st.Changes != 2 || st.Failures != 0 {
			t.Errorf("stats: %+v", st)
		}
		cancel()
		<-done
	})
}
