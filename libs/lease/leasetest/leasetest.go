// Package leasetest is the conformance suite of lease backends: what [lease.Backend]
// demands. A backend's own test calls [Run].
//
// One half tests the store itself: versions, terms, races, reopening. In the other half,
// real Holders compete for a lease in the store, in virtual time, with pauses, crashes and
// lost replies, and the guarantees of the lease are checked.
//
// # What this does not do
//
// It does not cut the power: that an acknowledged write survives is the backend's
// responsibility.
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Harness is one backend with a fresh, empty store. Clean up with t.Cleanup.
type Harness struct {
	Backend lease.Backend
	// Second opens another handle on the same records, as another process would. Nil
	// if that is not possible.
	Second func(t *testing.T) lease.Backend
	// Reopen closes Backend and opens its records again. Nil if they are gone
	// with it.
	Reopen func(t *testing.T) lease.Backend
}

// Run runs the suite; fresh makes a store per test.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h Harness)
	}{
		{"absent", absent},
		{"swap", swap},
		{"conflict", conflict},
		{"another record", anotherRecord},
		{"term never falls", termNeverFalls},
		{"names", names},
		{"cancelled", cancelled},
		{"race", race},
		{"second handle", secondHandle},
		{"reopen", reopen},
		{"one winner", oneWinner},
		{"next in line", nextInLine},
		{"terms rise", termsRise},
		{"expiry", expiry},
		{"pause", pause},
		{"lost replies", lostReplies},
		{"release", release},
		{"raise", raise},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, fresh(t)) })
	}
}

// full is a record with every bit set.
var full = lease.Record{
	Version: 1,
	Term:    math.MaxUint32,
	Holder:  sharding.NodeID{Addr: "[2001:db8::1]:65535", UID: math.MaxUint64},
	TTL:     1500 * time.Microsecond,
	Nonce:   1<<63 + 5,
	Cluster: 1<<63 + 7,
}

// none is the value for a missing record.
var none lease.Record

func record(version uint64, term sharding.Term, nonce uint64) lease.Record {
	return lease.Record{Version: version, Term: term, Nonce: nonce}
}

func get(t *testing.T, s lease.Backend, name string) lease.Record {
	t.Helper()
	r, err := s.Get(context.Background(), name)
	if err != nil {
		t.Fatalf("get %q: %v", name, err)
	}
	return r
}

func put(t *testing.T, s lease.Backend, name string, old, next lease.Record, want bool) {
	t.Helper()
	ok, err := s.Swap(context.Background(), name, old, next)
	if err != nil {
		t.Fatalf("swap %q of %+v: %v", name, old, err)
	}
	if ok != want {
		t.Fatalf("swap %q of %+v to %+v is %v, want %v", name, old, next, ok, want)
	}
}

func absent(t *testing.T, h Harness) {
	if r := get(t, h.Backend, "unused"); r != (lease.Record{}) {
		t.Errorf("an absent record is %+v, want the zero Record", r)
	}
	put(t, h.Backend, "unused", full, full, false)
	put(t, h.Backend, "unused", record(math.MaxUint64, 0, 0), full, false)
	if r := get(t, h.Backend, "unused"); r != (lease.Record{}) {
		t.Errorf("a refused swap left %+v", r)
	}
}

func swap(t *testing.T, h Harness) {
	first := full
	first.Version, first.Term = 77, 1 // the store must ignore these
	put(t, h.Backend, "x", none, first, true)
	first.Version = 1
	if r := get(t, h.Backend, "x"); r != first {
		t.Errorf("stored %+v, want %+v", r, first)
	}
	second := full
	second.Version = 2
	put(t, h.Backend, "x", first, second, true)
	if r := get(t, h.Backend, "x"); r != second {
		t.Errorf("stored %+v, want %+v", r, second)
	}
	released := lease.Record{Version: 3, Term: math.MaxUint32}
	put(t, h.Backend, "x", second, released, true)
	if r := get(t, h.Backend, "x"); r != released {
		t.Errorf("stored %+v, want %+v", r, released)
	}
}

func conflict(t *testing.T, h Harness) {
	put(t, h.Backend, "x", none, full, true)
	want := full
	want.Version = 2
	put(t, h.Backend, "x", full, want, true)
	other := full
	other.Nonce++
	for _, version := range []uint64{0, 1, 3, math.MaxUint64} {
		put(t, h.Backend, "x", record(version, full.Term, full.Nonce), other, false)
	}
	if r := get(t, h.Backend, "x"); r != want {
		t.Errorf("refused swaps left %+v, want %+v", r, want)
	}
}

// anotherRecord: a record with the known version, but written by another process after
// the store had lost its records, is not replaced.
func anotherRecord(t *testing.T, h Harness) {
	put(t, h.Backend, "x", none, record(1, 1, 1<<63+1), true)
	for _, nonce := range []uint64{0, 1, 1<<63 + 2} {
		put(t, h.Backend, "x", record(1, 1, nonce), record(2, 2, 7), false)
	}
	if r := get(t, h.Backend, "x"); r != record(1, 1, 1<<63+1) {
		t.Errorf("refused swaps left %+v", r)
	}
	put(t, h.Backend, "x", record(1, 1, 1<<63+1), record(2, 2, 7), true)
}

func termNeverFalls(t *testing.T, h Harness) {
	put(t, h.Backend, "x", none, record(1, 5, 1), true)
	put(t, h.Backend, "x", record(1, 5, 1), record(2, 4, 2), false)
	put(t, h.Backend, "x", record(1, 5, 1), record(2, 5, 3), true)
	put(t, h.Backend, "x", record(2, 5, 3), record(3, 6, 4), true)
	if r := get(t, h.Backend, "x"); r.Term != 6 || r.Version != 3 {
		t.Errorf("stored %+v, want term 6 at version 3", r)
	}
}

func names(t *testing.T, h Harness) {
	put(t, h.Backend, "a", none, record(1, 5, 1), true)
	put(t, h.Backend, "A", none, record(1, 1, 1), true)
	put(t, h.Backend, "a", record(1, 5, 1), record(2, 6, 2), true)
	if a, b := get(t, h.Backend, "a"), get(t, h.Backend, "A"); a.Version != 2 || b.Version != 1 || b.Term != 1 {
		t.Errorf("two names got mixed: %+v and %+v", a, b)
	}
}

func cancelled(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Backend.Get(ctx, "x"); !errors.Is(err, lease.ErrStore) {
		t.Errorf("a cancelled get says %v", err)
	}
	if ok, err := h.Backend.Swap(ctx, "x", none, full); ok || !errors.Is(err, lease.ErrStore) {
		t.Errorf("a cancelled swap says %v, %v", ok, err)
	}
	// The store still works.
	put(t, h.Backend, "y", none, full, true)
}

// race: of concurrent swaps of one version exactly one succeeds, and its record is
// stored.
func race(t *testing.T, h Harness) {
	stores := []lease.Backend{h.Backend}
	if h.Second != nil {
		stores = append(stores, h.Second(t))
	}
	var last lease.Record
	for round := range uint64(10) {
		var wg sync.WaitGroup
		won := make([]bool, 8)
		for i := range won {
			wg.Go(func() {
				ok, err := stores[i%len(stores)].Swap(context.Background(), "x", last,
					record(round+1, sharding.Term(round+1), round<<8|uint64(i)))
				if err != nil {
					t.Errorf("swap: %v", err)
				}
				won[i] = ok
			})
		}
		wg.Wait()
		winner := -1
		for i, ok := range won {
			if ok && winner >= 0 {
				t.Fatalf("round %d: %d and %d both won", round, winner, i)
			} else if ok {
				winner = i
			}
		}
		last = get(t, h.Backend, "x")
		if winner < 0 || last.Nonce != round<<8|uint64(winner) || last.Version != round+1 {
			t.Fatalf("round %d: winner is %d, the record %+v", round, winner, last)
		}
	}
}

func secondHandle(t *testing.T, h Harness) {
	if h.Second == nil {
		t.Skip("records cannot be reached twice")
	}
	other := h.Second(t)
	put(t, h.Backend, "x", none, record(1, 1, 1), true)
	put(t, other, "x", none, record(1, 1, 2), false)
	put(t, other, "x", record(1, 1, 1), record(2, 2, 2), true)
	if a, b := get(t, h.Backend, "x"), get(t, other, "x"); a != b || a.Nonce != 2 {
		t.Errorf("the handles see %+v and %+v", a, b)
	}
}

func reopen(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("records do not outlive their store")
	}
	put(t, h.Backend, "x", none, record(1, 1, 1), true)
	put(t, h.Backend, "x", record(1, 1, 1), full, true)
	want := full
	want.Version = 2
	s := h.Reopen(t)
	if r := get(t, s, "x"); r != want {
		t.Errorf("reopened, the record is %+v, want %+v", r, want)
	}
	put(t, s, "x", none, full, false)
	put(t, s, "x", want, full, true)
}

// addr is the address of a candidate.
func addr(i int) string { return fmt.Sprintf("10.0.0.%d:7000", i+1) }
