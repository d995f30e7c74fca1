package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// checkRetry is the pause after a self-test that failed.
	checkRetry = 10 * time.Second
	// checkTries is the number of tries of a self-test that collides with another node's. Colliding that
	// often, they have shown that writes work.
	checkTries = 4
)

// Check is the self-test of a store: it reads a record, replaces it, and reads
// it again, as an acquisition would. Use a name of its own; nodes may use the
// same.
func Check(ctx context.Context, s Backend, name string) error {
	for range checkTries {
		old, err := s.Get(ctx, name)
		if err != nil {
			return err
		}
		next := Record{Term: old.Term, Nonce: rand.Uint64()}
		ok, err := s.Swap(ctx, name, old, next)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		got, err := s.Get(ctx, name)
		if err != nil {
			return err
		}
		if got.Version <= old.Version {
			return fmt.Errorf("%w: %s: version %d is read after version %d was written; are reads served by a replica?",
				ErrStore, name, got.Version, old.Version+1)
		}
		return nil
	}
	return nil
}

// health is the usability of a store as its Keeper last saw it.
type health struct {
	mu           sync.Mutex
	failure      error // of the last conclusive request, nil if it succeeded
	writeFailed  bool  // only a successful write ends the failure
	failingSince time.Time
	selfTest     error // of the last self-test
	untested     bool  // no self-test has ended yet
	tolerance    time.Duration
}

// request records the result of a request, and reports whether the health changed. wrote is true for a
// write, or a read that shows one: a store that is full or read-only answers reads, but the lease cannot be
// acquired in it.
func (h *health) request(err error, wrote bool, now time.Time) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.writeFailed && !wrote {
		return false
	}
	news = (err != nil) != (h.failure != nil)
	if news {
		h.failingSince = now
	}
	h.failure, h.writeFailed = err, err != nil && (wrote || h.writeFailed)
	return news
}

func (h *health) tested(err error) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	news = (err != nil) != (h.selfTest != nil)
	h.selfTest, h.untested = err, false
	return news
}

func (h *health) err(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.failure != nil && now.Sub(h.failingSince) >= h.tolerance:
		what := "no answer"
		if h.writeFailed {
			what = "nothing could be written"
		}
		return fmt.Errorf("%s for %v: %w", what, now.Sub(h.failingSince).Round(time.Second), h.failure)
	case h.selfTest != nil:
		return fmt.Errorf("the self-test failed: %w", h.selfTest)
	case h.untested:
		return fmt.Errorf("%w: the self-test has not ended yet", ErrStore)
	}
	return nil
}

// Usable returns why the store cannot be used at the moment, or nil: its requests,
// or only its writes, have failed for longer than the lease lasts, or the last
// self-test has failed. It is for readiness checks: a coordinator without its
// store cannot take over.
func (k *Keeper) Usable() error { return k.health.err(time.Now()) }

// selfTests tests the store at intervals, until ctx ends.
func (k *Keeper) selfTests(ctx context.Context) {
	for {
		asking, cancel := context.WithTimeout(ctx, k.cfg.TTL)
		err := Check(asking, k.store, k.name+".check")
		cancel()
		if ctx.Err() != nil {
			return
		}
		if k.health.tested(err) {
			if err != nil {
				k.log.Error("lease store fails its self-test; is it writable?", "lease", k.name, "error", err)
			} else {
				k.log.Info("lease store passes its self-test again", "lease", k.name)
			}
		}
		pause := k.cfg.CheckEvery
		if err != nil {
			pause = min(pause, checkRetry)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
