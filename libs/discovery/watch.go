package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Config is the timing and the limits of a Watch.
type Config struct {
	// Interval is the time between two lookups. Default 1 s.
	Interval time.Duration
	// MaxBackoff bounds the interval, which doubles with every consecutive failure.
	// Default 15 s: a backend that is down is not hammered, and its recovery is
	// noticed soon.
	MaxBackoff time.Duration
	// Jitter is the largest random extension of every interval, as a fraction in [0, 1]. Default 0.2, so
	// that processes do not look up in lockstep.
	Jitter float64
	// Timeout bounds one lookup. Default 3 s.
	Timeout time.Duration
	// Gap is the minimum time between two lookups of a Follower, lengthened at
	// random up to twofold. Default 100 ms: many changes at once cause few lookups.
	Gap time.Duration
	// MaxWait bounds the wait for a Follower to notice a change. Default 5 min;
	// backends have shorter limits.
	MaxWait time.Duration
	// MaxPeers is the largest answer that is accepted. Default 1000.
	MaxPeers int
	// Enough is the number of peers below which the next lookup is due after Interval,
	// however long the answer may live. Default 1.
	Enough int
}

// DefaultConfig returns the defaults named at the fields.
func DefaultConfig() Config {
	return Config{
		Interval:   time.Second,
		MaxBackoff: 15 * time.Second,
		Jitter:     0.2,
		Timeout:    3 * time.Second,
		Gap:        100 * time.Millisecond,
		MaxWait:    5 * time.Minute,
		MaxPeers:   1000,
		Enough:     1,
	}
}

// Validate names every invalid field, and what would be valid. Errors wrap
// ErrConfig.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...)))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Interval", c.Interval}, {"Timeout", c.Timeout}, {"Gap", c.Gap}, {"MaxWait", c.MaxWait}} {
		if f.value <= 0 || f.value > time.Hour {
			bad("%s is %v; it must be above 0 and at most 1h", f.name, f.value)
		}
	}
	if c.MaxBackoff < c.Interval || c.MaxBackoff > 24*time.Hour {
		bad("MaxBackoff is %v; it must be at least Interval %v and at most 24h", c.MaxBackoff, c.Interval)
	}
	if !(c.Jitter >= 0 && c.Jitter <= 1) {
		bad("Jitter is %v; it must be between 0 and 1", c.Jitter)
	}
	if c.MaxPeers < 1 {
		bad("MaxPeers is %d; it must be at least 1", c.MaxPeers)
	}
	if c.Enough < 1 {
		bad("Enough is %d; it must be at least 1", c.Enough)
	}
	return errors.Join(errs...)
}

// delay is the time to the next lookup after a number of consecutive failures, for
// a random number in [0, 1): the growing interval is capped first, then
// lengthened. Source: the discovery back-off of Akka Management's bootstrap.
func (c Config) delay(failures int, random float64) time.Duration {
	d := c.Interval
	for ; failures > 0 && d < c.MaxBackoff; failures-- {
		d = min(2*d, c.MaxBackoff)
	}
	return d + time.Duration(random*c.Jitter*float64(d))
}

// Answer is the state of knowledge about the peers.
type Answer struct {
	// Peers is the result of the last lookup that succeeded, sorted and without duplicates.
	Peers []Peer
	// Known is true if at least one lookup has succeeded.
	Known bool
	// Age is the time since that lookup.
	Age time.Duration
	// Err is the error of the latest lookup; nil if it succeeded or there was
	// none. It wraps ErrLookup.
	Err error
}

// WatchStats counts what a Watch has done.
type WatchStats struct {
	Lookups  uint64        // that have ended
	Failures uint64        // of them
	Changes  uint64        // answers that differed from the one before
	Took     time.Duration // the latest lookup
}

// Watch keeps the answer of a Backend up to date. Its methods are safe for
// concurrent use.
type Watch struct {
	backend Backend
	cfg     Config
	log     *slog.Logger
	turn    chan struct{} // holds a token during a lookup

	mu           sync.Mutex
	peers        []Peer
	known        bool
	answeredAt   time.Time // when the last good lookup began
	err          error
	failures     int  // in a row
	followBroken bool // the Follower does not report changes
	stats        WatchStats
}

// NewWatch makes a Watch. A nil log is silent. Errors wrap ErrConfig.
func NewWatch(d Backend, c Config, log *slog.Logger) (*Watch, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Watch{backend: d, cfg: c, log: log, turn: make(chan struct{}, 1)}, nil
}

// Run looks up at once and then at every interval, or when a Follower notices a
// change, until ctx ends. It calls notify, unless it is nil, with the first good
// answer and with every one that differs from the one before.
func (w *Watch) Run(ctx context.Context, notify func(Answer)) {
	var notified []Peer
	first := true
	for {
		a, changed := w.lookup(ctx)
		if ctx.Err() != nil {
			return
		}
		if a.Known && (first || !slices.Equal(a.Peers, notified)) {
			first, notified = false, slices.Clone(a.Peers)
			w.log.Info("peers changed", "peers", len(notified))
			if notify != nil {
				notify(a)
			}
		}
		w.wait(ctx, changed, len(a.Peers) >= w.cfg.Enough)
		if ctx.Err() != nil {
			return
		}
	}
}

// wait returns when the next lookup is due. Without enough peers, that is after the interval: a process that waits for
// others to start can do nothing else, but the DNS may let an answer without them live for minutes.
func (w *Watch) wait(ctx context.Context, changed Changed, enough bool) {
	if changed != nil {
		longest := w.cfg.MaxWait
		if !enough {
			longest = min(longest, w.cfg.delay(0, rand.Float64()))
		}
		bounded, cancel := context.WithTimeout(ctx, longest)
		err := changed(bounded)
		late := bounded.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		w.followHealthy(err == nil || late, err)
		if err == nil || late {
			sleep(ctx, w.cfg.Gap+time.Duration(rand.Float64()*float64(w.cfg.Gap)))
			return
		}
	}
	sleep(ctx, w.cfg.delay(w.failed(), rand.Float64()))
}

// followHealthy records whether the Follower reports changes. When it ceases to,
// this is logged once, and lookups happen at intervals.
func (w *Watch) followHealthy(ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok && !w.followBroken {
		w.log.Warn("discovery watch failed, polling at intervals", "error", err)
	}
	w.followBroken = !ok
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Peers returns the current answer without a lookup. The caller owns the slice.
func (w *Watch) Peers() Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := Answer{Peers: slices.Clone(w.peers), Known: w.known, Err: w.err}
	if w.known {
		a.Age = time.Since(w.answeredAt)
	}
	return a
}

// Stats returns the counters.
func (w *Watch) Stats() WatchStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Lookup asks the backend now and returns the answer: after a failure the last
// good one, with its age and the error. Only one lookup runs at a time.
func (w *Watch) Lookup(ctx context.Context) Answer {
	a, _ := w.lookup(ctx)
	return a
}

// lookup also returns the function that waits for a change, if there is one.
func (w *Watch) lookup(ctx context.Context) (Answer, Changed) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return w.Peers(), nil
	}
	began := time.Now() // the age of the answer counts from the request
	bounded, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	peers, changed, err := w.ask(bounded)
	if ctx.Err() == nil { // a canceled lookup says nothing about the backend
		w.store(began, peers, err)
	}
	return w.Peers(), changed
}

func (w *Watch) ask(ctx context.Context) (peers []Peer, changed Changed, err error) {
	if f, ok := w.backend.(Follower); ok {
		peers, changed, err = f.Follow(ctx)
	} else {
		peers, err = w.backend.Peers(ctx)
	}
	if err == nil {
		peers, err = w.validate(peers)
	} else {
		err = fmt.Errorf("%w: %w", ErrLookup, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return peers, changed, nil
}

// validate checks an answer, sorts it and removes duplicates.
func (w *Watch) validate(peers []Peer) ([]Peer, error) {
	for _, p := range peers {
		if parsed, err := ParsePeer(p.String()); err != nil || parsed != p {
			return nil, fmt.Errorf("%w: the backend names a peer %.80q: %w", ErrLookup, p.String(), err)
		}
	}
	peers = Normalize(slices.Clone(peers))
	if len(peers) > w.cfg.MaxPeers {
		return nil, fmt.Errorf("%w: %d peers, at most %d are allowed; is the place shared with something else?", ErrLookup, len(peers), w.cfg.MaxPeers)
	}
	return peers, nil
}

func (w *Watch) store(began time.Time, peers []Peer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.err; (was == nil) != (err == nil) {
		if err != nil {
			w.log.Warn("discovery fails; the last answer remains", "peers", len(w.peers), "error", err)
		} else {
			w.log.Info("discovery answers again", "failures", w.failures)
		}
	}
	w.err = err
	w.stats.Lookups++
	w.stats.Took = time.Since(began)
	if err != nil {
		w.failures++
		w.stats.Failures++
		return
	}
	if !w.known || !slices.Equal(w.peers, peers) {
		w.stats.Changes++
	}
	w.peers, w.known, w.answeredAt, w.failures = peers, true, began, 0
}

func (w *Watch) failed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failures
}
