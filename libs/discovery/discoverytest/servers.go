package discoverytest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/discovery"
)

func stops(h Harness) bool { return h.Down != nil }

// down opens a backend whose server is not running yet.
func down(t *testing.T, s Suite) {
	h := s.with(t, some, stops)
	h.Down(t)
	b := h.Second(t)
	if got, err := b.Peers(short(t)); err == nil {
		t.Fatalf("without a server it lists %v", got)
	}
	h.Up(t)
	h.Lag = true // connections are retried
	h.want(t, b, s.express(some...))
}

func restarted(t *testing.T, s Suite) {
	h := s.with(t, some, stops)
	h.want(t, h.Backend, s.express(some...))
	for range 2 {
		h.Down(t)
		if got, err := h.Backend.Peers(short(t)); err == nil {
			t.Fatalf("without a server it lists %v", got)
		}
		h.Up(t)
		h.Lag = true
		h.want(t, h.Backend, s.express(some...))
	}
}

// hangs: a server accepts connections and never answers.
func hangs(t *testing.T, s Suite) {
	h := s.with(t, some, func(h Harness) bool { return h.Pause != nil })
	h.want(t, h.Backend, s.express(some...))
	h.Pause(t)
	if got, err := h.Backend.Peers(short(t)); err == nil {
		t.Errorf("a server that hangs lists %v", got)
	}
	h.Up(t)
	h.Lag = true
	h.want(t, h.Backend, s.express(some...))
}

// me and other register themselves.
var (
	me    = discovery.Peer{Addr: "10.9.0.1:7000", Role: "coordinator"}
	other = discovery.Peer{Addr: "roost-7.example.net:7000", Role: "region"}
)

func (s Suite) registrar(t *testing.T, possible func(Harness) bool) (Harness, discovery.Registrar) {
	t.Helper()
	h := s.with(t, nil, possible)
	r, ok := h.Backend.(discovery.Registrar)
	if !ok {
		t.Skip("no process enters itself there")
	}
	h.Lag = true // the backend may show an entry after a delay
	return h, r
}

func enter(t *testing.T, r discovery.Registrar, p discovery.Peer) {
	t.Helper()
	if err := r.Enter(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func registration(t *testing.T, s Suite) {
	h, r := s.registrar(t, nil)
	if err := r.Remove(t.Context(), me); err != nil {
		t.Errorf("removing an entry that does not exist: %v", err)
	}
	enter(t, r, me)
	h.want(t, h.Backend, []discovery.Peer{me}) // itself only
	enter(t, r, me)
	second := h.Second(t)
	enter(t, second.(discovery.Registrar), other)
	for _, b := range []discovery.Backend{h.Backend, second} {
		h.want(t, b, []discovery.Peer{me, other})
	}
	if err := r.Remove(t.Context(), me); err != nil {
		t.Fatal(err)
	}
	h.want(t, second, []discovery.Peer{other})
	enter(t, r, me)
	h.want(t, second, []discovery.Peer{me, other})
	// the next process at the same address
	third := h.Second(t)
	enter(t, third.(discovery.Registrar), me)
	h.want(t, second, []discovery.Peer{me, other})
	if err := third.(discovery.Registrar).Remove(t.Context(), me); err != nil {
		t.Fatal(err)
	}
	h.want(t, second, []discovery.Peer{other})
}

// expires: the entry of a process that died expires.
func expires(t *testing.T, s Suite) {
	h, r := s.registrar(t, nil)
	enter(t, r, me)
	second := h.Second(t)
	kept, err := discovery.NewRegistration(second, other, discovery.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = kept.Run(t.Context())
	}()
	h.want(t, second, []discovery.Peer{me, other})
	h.want(t, second, []discovery.Peer{other})
	if err := kept.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.want(t, second, nil)
	if st := kept.Stats(); st.Entered || st.Renewals < 2 || st.Failures != 0 {
		t.Errorf("a registration that was kept: %+v", st)
	}
	t.Cleanup(func() { <-done })
}

func lost(t *testing.T, s Suite) {
	h, r := s.registrar(t, func(h Harness) bool { return h.Lose != nil })
	for range 2 {
		enter(t, r, me)
		h.want(t, h.Backend, []discovery.Peer{me})
		h.Lose(t)
		h.want(t, h.Backend, nil)
	}
	retry(t, func() error { return r.Enter(t.Context(), me) })
	h.want(t, h.Backend, []discovery.Peer{me})
}

func registerWhileDown(t *testing.T, s Suite) {
	h, r := s.registrar(t, stops)
	h.Down(t)
	if err := r.Enter(short(t), me); err == nil {
		t.Error("entered without a server")
	}
	h.Up(t)
	retry(t, func() error { return r.Enter(short(t), me) })
	h.want(t, h.Backend, []discovery.Peer{me})
	h.Down(t)
	h.Up(t)
	retry(t, func() error { return r.Enter(short(t), me) })
	h.want(t, h.Backend, []discovery.Peer{me})
	retry(t, func() error { return r.Remove(short(t), me) })
	h.want(t, h.Backend, nil)
}

func registerDenied(t *testing.T, s Suite) {
	h, _ := s.registrar(t, func(h Harness) bool { return h.Deny != nil })
	place := h.Deny(t)
	c := discovery.DefaultConfig()
	c.MaxBackoff, c.Timeout = time.Second, 10*time.Second
	reg, err := discovery.NewRegistration(h.Backend, me, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := reg.Enter(t.Context()); !errors.Is(err, discovery.ErrDenied) || !errors.Is(err, discovery.ErrRegister) {
			t.Fatalf("refused at %s, it says %v", place, err)
		}
	}
	if st := reg.Stats(); st.Entered || st.Failures != 3 {
		t.Errorf("refused: %+v", st)
	}
	h.Allow(t)
	retry(t, func() error { return reg.Enter(t.Context()) })
	retry(t, func() error {
		got, err := h.Backend.Peers(short(t))
		if err == nil && !slices.Equal(got, []discovery.Peer{me}) {
			err = fmt.Errorf("got %v", got)
		}
		return err
	})
}
