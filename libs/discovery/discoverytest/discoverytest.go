// Package discoverytest is the conformance suite of discovery backends: what
// [discovery.Backend], [discovery.Follower] and [discovery.Registrar] demand. The
// test of each backend calls [Run], or a [Suite] if it cannot list every peer.
//
// # What this does not do
//
// It does not test back-off and jitter: they are part of [discovery.Watch], and tested
// there in virtual time.
package discoverytest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/discovery"
)

const (
	// within is the deadline for real servers, long enough for a busy machine.
	within = 60 * time.Second
	often  = 20 * time.Millisecond
)

// Harness is one backend that lists certain peers, and the ways to disturb it. A nil func
// means that this cannot happen; its test is skipped.
type Harness struct {
	Backend discovery.Backend
	// Lag means that changes are seen only after a moment.
	Lag bool
	// Change makes it list other peers, and undoes Break, Garbage and Foreign.
	Change func(t *testing.T, peers []discovery.Peer)
	// Break makes it fail, until the next Change.
	Break func(t *testing.T)
	// Garbage adds an invalid peer, and returns a word of the error that names the
	// place.
	Garbage func(t *testing.T) string
	// WrongPort adds a peer with an invalid port, and returns a word as above.
	WrongPort func(t *testing.T) string
	// Foreign adds a peer of another cluster, and returns a word as above.
	Foreign func(t *testing.T) string
	// Deny refuses the backend's credentials, and returns a word as above;
	// Allow accepts them again.
	Deny  func(t *testing.T) string
	Allow func(t *testing.T)
	// Down ends the server, Up starts it again with its data, Pause makes it hang
	// until Up.
	Down, Up, Pause func(t *testing.T)
	// Lose makes the server lose its entries.
	Lose func(t *testing.T)
	// Second opens another handle on the same place, as another process would.
	Second func(t *testing.T) discovery.Backend
}

// Suite runs the suite for a backend.
type Suite struct {
	// Name is in every error of the backend.
	Name string
	// With makes a backend that lists the peers.
	With func(t *testing.T, peers []discovery.Peer) Harness
	// Express turns any peer into one that the backend can list, and different peers
	// into different ones. Nil: the backend can list all.
	Express func(discovery.Peer) discovery.Peer
}

// Run runs the suite for a backend that can list all peers.
func Run(t *testing.T, with func(t *testing.T, peers []discovery.Peer) Harness) {
	Suite{With: with}.Run(t)
}

// Run runs every test that the harness allows.
func (s Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Suite)
	}{
		{"no peers", nobody},
		{"listed", listed},
		{"duplicates", duplicates},
		{"many", many},
		{"owned by the caller", owned},
		{"closed", closed},
		{"cancelled", cancelled},
		{"concurrent", concurrent},
		{"join and leave", change},
		{"flapping", flapping},
		{"changes are noticed", noticed},
		{"failure is not an empty list", failure},
		{"stale answer", stale},
		{"garbage", garbage},
		{"wrong port", wrongPort},
		{"another cluster", foreign},
		{"credentials refused", denied},
		{"server down at the start", down},
		{"server restarted", restarted},
		{"server hangs", hangs},
		{"registration", registration},
		{"registration expires", expires},
		{"registration is lost", lost},
		{"registration and a server that is down", registerWhileDown},
		{"registration refused", registerDenied},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// with returns a harness, or skips the test if the backend lacks what it needs.
func (s Suite) with(t *testing.T, peers []discovery.Peer, possible func(Harness) bool) Harness {
	t.Helper()
	h := s.With(t, s.express(peers...))
	t.Cleanup(func() {
		for range 2 {
			if err := h.Backend.Close(); err != nil {
				t.Errorf("it cannot be closed: %v", err)
			}
		}
	})
	if possible != nil && !possible(h) {
		t.Skip("cannot happen with this backend")
	}
	return h
}

func (s Suite) express(peers ...discovery.Peer) []discovery.Peer {
	out := slices.Clone(peers)
	if s.Express != nil {
		for i, p := range out {
			out[i] = s.Express(p)
		}
	}
	return out
}

var some = []discovery.Peer{
	{Addr: "10.0.0.2:7000"},
	{Addr: "10.0.0.10:7000", Role: "coordinator"},
	{Addr: "[2001:db8::1]:7000"},
	{Addr: "roost-0.roost.svc.cluster.local:65535", Role: "region"},
}

// want checks that the backend lists exactly the peers, and waits for that if it lags.
func (h Harness) want(t *testing.T, b discovery.Backend, peers []discovery.Peer) {
	t.Helper()
	peers = discovery.Normalize(slices.Clone(peers))
	h.eventually(t, func() error {
		got, err := b.Peers(t.Context())
		if err == nil && !slices.Equal(discovery.Normalize(got), peers) {
			err = fmt.Errorf("got %v, want %v", got, peers)
		}
		return err
	})
}

// eventually tries at once, and repeatedly if the backend lags.
func (h Harness) eventually(t *testing.T, try func() error) {
	t.Helper()
	if !h.Lag {
		if err := try(); err != nil {
			t.Fatal(err)
		}
		return
	}
	retry(t, try)
}

// retry tries until the deadline.
func retry(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", within, err)
		}
		pause := time.NewTimer(often)
		<-pause.C
	}
}

// short returns the context of a call that must fail.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// refused checks that the error names the backend and the place.
func (s Suite) refused(h Harness, t *testing.T, place string) {
	t.Helper()
	h.eventually(t, func() error {
		got, err := h.Backend.Peers(short(t))
		if err == nil {
			return fmt.Errorf("it lists %v", got)
		}
		for _, word := range []string{s.Name, place} {
			if !strings.Contains(err.Error(), word) {
				return fmt.Errorf("the error does not name %q: %w", word, err)
			}
		}
		return nil
	})
}
