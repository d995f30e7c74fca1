package discoverytest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/discovery"
)

func nobody(t *testing.T, s Suite) {
	h := s.with(t, nil, nil)
	h.want(t, h.Backend, nil)
}

func listed(t *testing.T, s Suite) {
	h := s.with(t, some, nil)
	h.want(t, h.Backend, s.express(some...))
	h.want(t, h.Backend, s.express(some...))
}

func duplicates(t *testing.T, s Suite) {
	h := s.with(t, append(slices.Clone(some), some...), nil)
	h.want(t, h.Backend, s.express(some...))
}

func many(t *testing.T, s Suite) {
	var peers []discovery.Peer
	for i := range 500 {
		peers = append(peers, discovery.Peer{Addr: fmt.Sprintf("10.1.%d.%d:%d", i/250, i%250, 7000+i)})
	}
	h := s.with(t, peers, nil)
	h.want(t, h.Backend, s.express(peers...))
}

// closed: nothing of a backend is left when it is closed.
func closed(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.Second != nil })
	h.want(t, h.Backend, s.express(some...))
	before := runtime.NumGoroutine()
	second := h.Second(t)
	h.want(t, second, s.express(some...))
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	retry(t, func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("%d goroutines are left", n-before)
		}
		return nil
	})
}

func owned(t *testing.T, s Suite) {
	h := s.with(t, some, nil)
	h.want(t, h.Backend, s.express(some...))
	got, err := h.Backend.Peers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clear(got)
	h.want(t, h.Backend, s.express(some...))
}

func cancelled(t *testing.T, s Suite) {
	h := s.with(t, some, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := h.Backend.Peers(ctx); err == nil {
		t.Errorf("a cancelled lookup gives %v", got)
	}
	h.want(t, h.Backend, s.express(some...))
}

func concurrent(t *testing.T, s Suite) {
	h := s.with(t, some, nil)
	h.want(t, h.Backend, s.express(some...))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if got, err := h.Backend.Peers(t.Context()); err != nil || len(got) != len(some) {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func changes(h Harness) bool { return h.Change != nil }

func change(t *testing.T, s Suite) {
	h := s.with(t, some, changes)
	h.want(t, h.Backend, s.express(some...))
	for _, peers := range [][]discovery.Peer{some[:1], some[1:], nil, some} {
		h.Change(t, s.express(peers...))
		h.want(t, h.Backend, s.express(peers...))
	}
	// A different list of the same length.
	for _, addr := range []string{"a:1", "b:1"} {
		peers := s.express(discovery.Peer{Addr: addr})
		h.Change(t, peers)
		h.want(t, h.Backend, peers)
	}
}

// flapping: a peer comes and goes many times; the last state must be seen.
func flapping(t *testing.T, s Suite) {
	h := s.with(t, some, changes)
	h.want(t, h.Backend, s.express(some...))
	for range 20 {
		h.Change(t, s.express(some[:2]...))
		h.Change(t, s.express(some...))
	}
	h.want(t, h.Backend, s.express(some...))
}

// noticed waits for changes as a Watch does; a change between the answer and the wait
// must be noticed too.
func noticed(t *testing.T, s Suite) {
	h := s.with(t, some, changes)
	f, ok := h.Backend.(discovery.Follower)
	if !ok {
		t.Skip("it is polled at intervals")
	}
	h.want(t, h.Backend, s.express(some...))
	for _, peers := range [][]discovery.Peer{some[:1], some, nil} {
		_, changed, err := f.Follow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.Change(t, s.express(peers...))
		if err := changed(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.want(t, h.Backend, s.express(peers...))
	}
	_, changed, err := f.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = changed(ctx) // it returns
}

func failure(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.Break != nil })
	h.Break(t)
	h.eventually(t, func() error {
		if got, err := h.Backend.Peers(short(t)); err == nil {
			return fmt.Errorf("broken, it lists %v", got)
		}
		return nil
	})
	if h.Change != nil {
		h.Change(t, s.express(some...))
		h.want(t, h.Backend, s.express(some...))
	}
}

// stale: after an error the last good answer is kept, with the error and its age.
func stale(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.Break != nil })
	h.want(t, h.Backend, s.express(some...))
	w, err := discovery.NewWatch(h.Backend, discovery.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	good := w.Lookup(t.Context())
	h.Break(t)
	h.eventually(t, func() error {
		a := w.Lookup(t.Context())
		switch {
		case !errors.Is(a.Err, discovery.ErrLookup):
			return fmt.Errorf("broken, it says %v", a.Err)
		case !slices.Equal(a.Peers, good.Peers) || a.Age <= good.Age:
			return fmt.Errorf("it has %v, %v old", a.Peers, a.Age)
		}
		return nil
	})
}

func garbage(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.Garbage != nil })
	s.refused(h, t, h.Garbage(t))
	h.Change(t, s.express(some...))
	h.want(t, h.Backend, s.express(some...))
}

func wrongPort(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.WrongPort != nil })
	s.refused(h, t, h.WrongPort(t))
	h.Change(t, s.express(some...))
	h.want(t, h.Backend, s.express(some...))
}

func foreign(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.Foreign != nil })
	s.refused(h, t, h.Foreign(t))
	h.Change(t, s.express(some...))
	h.want(t, h.Backend, s.express(some...))
}

// denied: repeated attempts with refused credentials do no harm.
func denied(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.Deny != nil })
	place := h.Deny(t)
	s.refused(h, t, place)
	for range 5 {
		if got, err := h.Backend.Peers(short(t)); !errors.Is(err, discovery.ErrDenied) {
			t.Fatalf("refused, it says %v, %v", got, err)
		}
	}
	h.Allow(t)
	retry(t, func() error {
		_, err := h.Backend.Peers(short(t))
		return err
	})
	h.want(t, h.Backend, s.express(some...))
}
