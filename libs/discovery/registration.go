package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrRegister: a process could not register itself, or remove its entry.
var ErrRegister = errors.New("discovery registration")

// renewals is the number of renewals of an entry within its TTL: two may fail.
const renewals = 3

// RegistrationStats describes a Registration.
type RegistrationStats struct {
	// Entered is true if the entry exists, as far as we know.
	Entered  bool
	Renewals uint64 // that succeeded
	Failures uint64
	Err      error // of the latest attempt; nil if it succeeded
}

// Registration keeps this process listed: it adds the entry, renews it three times
// within its TTL, adds it again if it is lost, and removes it at the end. With a
// backend that is not a Registrar it does nothing.
type Registration struct {
	backend   Backend
	registrar Registrar // the backend; nil: nothing to do
	self      Peer
	cfg       Config
	log       *slog.Logger
	turn      chan struct{} // holds a token during a request to the backend

	mu       sync.Mutex
	hasLeft  bool
	failures int // in a row
	stats    RegistrationStats
}

// NewRegistration prepares the entry of self; nothing is registered yet. The backend is
// closed by [Registration.Close]. A nil log is silent. Errors wrap ErrConfig.
func NewRegistration(d Backend, self Peer, c Config, log *slog.Logger) (*Registration, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if p, err := ParsePeer(self.String()); err != nil || p != self {
		return nil, fmt.Errorf("%w: I cannot be entered as %.80q: %w", ErrConfig, self.String(), err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Registration{backend: d, self: self, cfg: c, log: log, turn: make(chan struct{}, 1)}
	r.registrar, _ = d.(Registrar)
	return r, nil
}

// Registers reports whether the backend is a Registrar, so that there is an entry
// to maintain.
func (r *Registration) Registers() bool { return r.registrar != nil }

// Enter registers the process now. Errors wrap ErrRegister.
func (r *Registration) Enter(ctx context.Context) error {
	if r.registrar == nil {
		return nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrRegister, ctx.Err())
	}
	if r.leaving() {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	err := r.registrar.Enter(bounded, r.self)
	if err != nil {
		err = fmt.Errorf("%w of %s: %w", ErrRegister, r.self, err)
	}
	if ctx.Err() == nil {
		r.store(err)
	}
	return err
}

// Run maintains the entry until ctx ends, or until Leave. It returns nil.
func (r *Registration) Run(ctx context.Context) error {
	if r.registrar == nil {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		_ = r.Enter(ctx) // it stores and logs the error
		sleep(ctx, r.pause(rand.Float64()))
	}
	return nil
}

// pause is the time to the next renewal. It is shorter after a failure, so that
// there are several attempts within a TTL.
func (r *Registration) pause(random float64) time.Duration {
	r.mu.Lock()
	failures := r.failures
	r.mu.Unlock()
	every := r.registrar.TTL() / renewals
	if failures == 0 {
		return every - time.Duration(random*r.cfg.Jitter*float64(every))
	}
	return r.cfg.delay(failures-1, random)
}

// Leave removes the entry permanently: it is not added again. Errors are logged and
// wrap ErrRegister; the entry then expires.
func (r *Registration) Leave(ctx context.Context) error {
	if r.registrar == nil {
		return nil
	}
	r.mu.Lock()
	r.hasLeft = true
	r.mu.Unlock()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrRegister, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if err := r.registrar.Remove(bounded, r.self); err != nil {
		err = fmt.Errorf("%w: the entry of %s stays for %v: %w", ErrRegister, r.self, r.registrar.TTL(), err)
		r.log.Warn("could not take my entry out", "error", err)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Entered = false
	return nil
}

// Close closes the backend. The registration cannot be used any more.
func (r *Registration) Close() error { return r.backend.Close() }

// Stats returns what happened so far.
func (r *Registration) Stats() RegistrationStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

func (r *Registration) leaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hasLeft
}

func (r *Registration) store(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, first := r.stats.Err, r.stats.Renewals+r.stats.Failures == 0
	r.stats.Err = err
	if err != nil {
		r.failures++
		r.stats.Failures++
		if was == nil {
			r.log.Warn("registration fails, it is tried again", "self", r.self.String(), "error", err)
		}
		return
	}
	if first || was != nil {
		r.log.Info("registered for discovery", "self", r.self.String(), "ttl", r.registrar.TTL())
	}
	r.failures, r.stats.Entered = 0, true
	r.stats.Renewals++
}
