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

// ErrRegister: a process could not enter itself, or take its entry out.
var ErrRegister = errors.New("discovery registration")

// renewals is how often an entry is confirmed in its time to live: two may fail.
const renewals = 3

// RegistrationStats tells how a Registration is doing.
type RegistrationStats struct {
	// Entered says that the entry is there, as far as we know.
	Entered  bool
	Renewals uint64 // that went well
	Failures uint64
	Err      error // of the latest; nil if it went well
}

// Registration keeps this process listed: it enters it, confirms the entry
// three times in its time to live, enters it again when it is lost, and takes
// it out at the end. With a backend that is no Registrar it does nothing.
type Registration struct {
	registrar Registrar // nil: nothing to do
	self      Peer
	cfg       Config
	log       *slog.Logger
	turn      chan struct{} // holds a token while the backend is asked

	mu       sync.Mutex
	left     bool
	failures int // in a row
	stats    RegistrationStats
}

// NewRegistration prepares the entry of self; nothing is entered yet. A nil log
// is silent. Errors wrap ErrConfig.
func NewRegistration(b Backend, self Peer, c Config, log *slog.Logger) (*Registration, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if p, err := ParsePeer(self.String()); err != nil || p != self {
		return nil, fmt.Errorf("%w: I cannot be entered as %.80q: %w", ErrConfig, self.String(), err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Registration{self: self, cfg: c, log: log, turn: make(chan struct{}, 1)}
	r.registrar, _ = b.(Registrar)
	return r, nil
}

// Registers reports whether there is an entry to keep: with a backend that is no
// Registrar there is none.
func (r *Registration) Registers() bool { return r.registrar != nil }

// Enter enters the process now. Errors wrap ErrRegister.
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
	if r.gone() {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	err := r.registrar.Enter(bounded, r.self)
	if err != nil {
		err = fmt.Errorf("%w of %s: %w", ErrRegister, r.self, err)
	}
	if ctx.Err() == nil {
		r.keep(err)
	}
	return err
}

// Run keeps the entry until ctx ends, or until Leave. It returns nil.
func (r *Registration) Run(ctx context.Context) error {
	if r.registrar == nil {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		_ = r.Enter(ctx) // kept and logged
		sleep(ctx, r.pause(rand.Float64()))
	}
	return nil
}

// pause is the time to the next confirmation: sooner after a failure, so that
// there are several attempts in a time to live.
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

// Leave takes the entry out, for good: nothing enters it again. Errors are logged
// and wrap ErrRegister; the entry ends by itself then.
func (r *Registration) Leave(ctx context.Context) error {
	if r.registrar == nil {
		return nil
	}
	r.mu.Lock()
	r.left = true
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

// Stats is how it is doing.
func (r *Registration) Stats() RegistrationStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

func (r *Registration) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

func (r *Registration) keep(err error) {
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
