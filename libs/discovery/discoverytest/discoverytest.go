// Package discoverytest is the conformance suite of discovery backends. A
// backend's own test calls [Run].
//
// # What this does not do
//
// It does not test retries, order or duplicates: those are the business of
// [discovery.Watch], not of a backend.
package discoverytest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/discovery"
)

// Harness is one backend that lists certain peers.
type Harness struct {
	Backend discovery.Backend
	// Change makes it list others. Nil if it never changes.
	Change func(t *testing.T, peers []discovery.Peer)
	// Break makes it fail, until the next Change. Nil if it cannot fail.
	Break func(t *testing.T)
}

// Run runs the suite; with makes a backend that lists the peers.
func Run(t *testing.T, with func(t *testing.T, peers []discovery.Peer) Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, with func([]discovery.Peer) Harness)
	}{
		{"nobody", nobody},
		{"listed", listed},
		{"many", many},
		{"owned by the caller", owned},
		{"cancelled", cancelled},
		{"concurrent", concurrent},
		{"change", change},
		{"failure is not nobody", failure},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(t, func(peers []discovery.Peer) Harness { return with(t, peers) })
		})
	}
}

var some = []discovery.Peer{
	{Addr: "10.0.0.2:7000"},
	{Addr: "10.0.0.10:7000", Role: "coordinator"},
	{Addr: "[2001:db8::1]:7000"},
	{Addr: "roost-0.roost.svc.cluster.local:65535", Role: "region"},
}

func want(t *testing.T, b discovery.Backend, peers []discovery.Peer) {
	t.Helper()
	got, err := b.Peers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got, peers = discovery.Normalize(got), discovery.Normalize(slices.Clone(peers))
	if !slices.Equal(got, peers) {
		t.Fatalf("got %v, want %v", got, peers)
	}
}

func nobody(t *testing.T, with func([]discovery.Peer) Harness) { want(t, with(nil).Backend, nil) }

func listed(t *testing.T, with func([]discovery.Peer) Harness) {
	h := with(some)
	want(t, h.Backend, some)
	want(t, h.Backend, some)
}

func many(t *testing.T, with func([]discovery.Peer) Harness) {
	var peers []discovery.Peer
	for i := range 500 {
		peers = append(peers, discovery.Peer{Addr: fmt.Sprintf("10.1.%d.%d:%d", i/250, i%250, 7000+i)})
	}
	want(t, with(peers).Backend, peers)
}

func owned(t *testing.T, with func([]discovery.Peer) Harness) {
	h := with(some)
	got, err := h.Backend.Peers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	clear(got)
	want(t, h.Backend, some)
}

func cancelled(t *testing.T, with func([]discovery.Peer) Harness) {
	h := with(some)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := h.Backend.Peers(ctx); err == nil {
		t.Errorf("a cancelled lookup gives %v", got)
	}
	want(t, h.Backend, some)
}

func concurrent(t *testing.T, with func([]discovery.Peer) Harness) {
	h := with(some)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if got, err := h.Backend.Peers(context.Background()); err != nil || len(got) != len(some) {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func change(t *testing.T, with func([]discovery.Peer) Harness) {
	h := with(some)
	if h.Change == nil {
		t.Skip("never changes")
	}
	want(t, h.Backend, some)
	for _, peers := range [][]discovery.Peer{some[:1], some[1:], nil, some} {
		h.Change(t, peers)
		want(t, h.Backend, peers)
	}
	// As long, but different.
	h.Change(t, []discovery.Peer{{Addr: "a:1"}})
	want(t, h.Backend, []discovery.Peer{{Addr: "a:1"}})
	h.Change(t, []discovery.Peer{{Addr: "b:1"}})
	want(t, h.Backend, []discovery.Peer{{Addr: "b:1"}})
}

func failure(t *testing.T, with func([]discovery.Peer) Harness) {
	h := with(some)
	if h.Break == nil {
		t.Skip("cannot fail")
	}
	h.Break(t)
	if got, err := h.Backend.Peers(context.Background()); err == nil {
		t.Errorf("broken, it lists %v", got)
	}
	if h.Change != nil {
		h.Change(t, some)
		want(t, h.Backend, some)
	}
}
