// Package discoverytest is the conformance suite of discovery drivers: what
// [discovery.Driver], [discovery.Follower] and [discovery.Registrar] demand. A
// driver's own test calls [Run], or a [Suite] that says what the driver can express.
//
// # What this does not do
//
// It does not test back-off and jitter: those are the business of
// [discovery.Watch], tested there in virtual time.
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
	// within is the deadline of what a real server needs some time for; on a
	// busy machine that is long.
	within = 60 * time.Second
	often  = 20 * time.Millisecond
)

// Harness is one driver that lists certain peers, and the ways to trouble it.
// A func that is nil is something that cannot happen there; its test is skipped.
type Harness struct {
	Driver discovery.Driver
	// Lag says that what happens is seen a moment later.
	Lag bool
	// Change makes it list others, and undoes Break, Garbage and Foreign.
	Change func(t *testing.T, peers []discovery.Peer)
	// Break makes it fail, until the next Change.
	Break func(t *testing.T)
	// Garbage puts something among the peers that is none, and returns a word
	// of the error that names the place.
	Garbage func(t *testing.T) string
	// WrongPort puts a peer whose port cannot be, and returns a word as above.
	WrongPort func(t *testing.T) string
	// Foreign puts a peer of another cluster, and returns a word as above.
	Foreign func(t *testing.T) string
	// Deny refuses the driver's credentials, and returns a word as above;
	// Allow takes them again.
	Deny  func(t *testing.T) string
	Allow func(t *testing.T)
	// Down ends the server, Up starts it again with what it had, Pause makes it
	// hang until Up.
	Down, Up, Pause func(t *testing.T)
	// Forget makes the server lose what was entered.
	Forget func(t *testing.T)
	// Second opens another handle on the same place, as another process would.
	Second func(t *testing.T) discovery.Driver
}

// Suite runs the suite for a driver.
type Suite struct {
	// Name is in every error of the driver.
	Name string
	// With makes a driver that lists the peers.
	With func(t *testing.T, peers []discovery.Peer) Harness
	// Express turns any peer into one that the driver can list, different ones
	// into different ones. Nil: all can be.
	Express func(discovery.Peer) discovery.Peer
}

// Run runs the suite for a driver that can list all peers.
func Run(t *testing.T, with func(t *testing.T, peers []discovery.Peer) Harness) {
	Suite{With: with}.Run(t)
}

// Run runs every test that the harness allows.
func (s Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Suite)
	}{
		{"nobody", nobody},
		{"listed", listed},
		{"duplicates", duplicates},
		{"many", many},
		{"owned by the caller", owned},
		{"cancelled", cancelled},
		{"concurrent", concurrent},
		{"join and leave", change},
		{"flapping", flapping},
		{"changes are noticed", noticed},
		{"failure is not nobody", failure},
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
		{"registration is forgotten", forgotten},
		{"registration and a server that is down", registerWhileDown},
		{"registration refused", registerDenied},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// with makes a harness, or skips the test that needs what the driver has not.
func (s Suite) with(t *testing.T, peers []discovery.Peer, possible func(Harness) bool) Harness {
	t.Helper()
	h := s.With(t, s.express(peers...))
	if possible != nil && !possible(h) {
		t.Skip("cannot happen with this driver")
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

// want waits, if the driver lags, until it lists exactly the peers.
func (h Harness) want(t *testing.T, b discovery.Driver, peers []discovery.Peer) {
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

// eventually tries at once, and again if the driver lags.
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

// short is the context of a call that is to fail.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// refused wants an error that names backend and place.
func (s Suite) refused(h Harness, t *testing.T, place string) {
	t.Helper()
	h.eventually(t, func() error {
		got, err := h.Driver.Peers(short(t))
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
