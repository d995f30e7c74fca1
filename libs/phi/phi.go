// Package phi is the phi accrual failure detector. It returns a level of suspicion
// instead of a verdict. Suspicion grows the longer a heartbeat is overdue, relative
// to how regularly heartbeats came before.
//
// The idea is by Hayashibara et al. (SRDS 2004). The normal distribution is
// approximated by a logistic function, and the history starts with two artificial
// intervals around the expected one, both as in Akka.
//
// [NewDeadline] makes a simpler detector, which suspects a peer as soon as a
// deadline has passed, however regular its heartbeats were.
//
// A [Detector] watches one peer. It reads no clock: every method that needs
// the time is given it. It is not safe for concurrent use. The file phi.svg next
// to this one shows how suspicion grows, as drawn by the package itself.
//
// # What this does not do
//
// It cannot distinguish a slow peer, a cut cable and a dead peer, nor a pause of
// the peer from a pause of its own process: the caller must call
// [Detector.Restart] after a pause of the process.
//
// # Duties of the driver
//
// In the services the driver is package gossip, which is a core itself.
//
//  1. There is one detector per peer, used by one goroutine at a time, with the times of
//     one monotonic clock. It begins with the peer's incarnation and ends with it.
//  2. [Detector.Heartbeat] is called for every heartbeat reply of this very
//     incarnation, in the order of arrival.
//  3. After a pause of the process [Detector.Restart] is called for all detectors before any of them is
//     queried.
//  4. Heartbeats that have arrived are taken in before [Detector.Available] is called.
//
// What to write:
//
//	case reply := <-replies:
//		detectors[reply.From].Heartbeat(time.Now())
//	case now := <-ticker.C:
//		if now.Sub(last) > twice {
//			restart(detectors, now)
//		}
//		last = now
//		for peer, d := range detectors {
//			report(peer, d.Available(now))
//		}
package phi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Max is the highest suspicion: a probability of 10⁻³⁰⁰ that the peer is alive,
// close to the smallest number that floating point can represent.
const Max = 300

// Limits of a configuration. With them the sums of a history fit into 64 bits.
const (
	maxSamples  = 10_000
	maxDuration = time.Hour
	// maxInterval is the longest interval that is remembered; longer ones are
	// remembered as this.
	maxInterval = 4 * maxDuration
)

// Config tunes a detector.
type Config struct {
	// Threshold is the suspicion at which a peer stops being available.
	// Default 8: one false alarm in 10⁸ if intervals were normally distributed.
	Threshold float64
	// MaxSamples is the number of the newest intervals that are remembered, 2 to 10000. Default 1000: it
	// bounds memory to 8 kB per peer.
	MaxSamples int
	// MinStdDev is the least standard deviation assumed, so that a very
	// regular peer is not suspected after a minor delay. Default 100 ms.
	MinStdDev time.Duration
	// Pause is the time that a heartbeat may be overdue before suspicion begins to grow: garbage
	// collection, a busy machine, a lost packet. At most 1 h. Default 3 s.
	Pause time.Duration
	// FirstInterval is the expected interval before any was measured, at most
	// 1 h. Default 1 s, the heartbeat interval.
	FirstInterval time.Duration
}

// DefaultConfig returns a configuration for heartbeats every second.
func DefaultConfig() Config {
	return Config{
		Threshold:     8,
		MaxSamples:    1000,
		MinStdDev:     100 * time.Millisecond,
		Pause:         3 * time.Second,
		FirstInterval: time.Second,
	}
}

// CloudConfig returns [DefaultConfig] with a threshold of 12, as the documentation of
// Akka advises for virtual machines that share their hosts and networks: there
// intervals have a longer tail than a normal distribution. With very regular
// heartbeats, detection takes a few tens of milliseconds longer than with 8.
func CloudConfig() Config {
	c := DefaultConfig()
	c.Threshold = 12
	return c
}

// Validate returns an error that names every invalid field and what to set.
func (c Config) Validate() error {
	var errs []error
	if !(c.Threshold > 0 && c.Threshold < Max) {
		errs = append(errs, fmt.Errorf("Threshold is %v: choose one between 0 and %d", c.Threshold, Max))
	}
	if c.MaxSamples < 2 || c.MaxSamples > maxSamples {
		errs = append(errs, fmt.Errorf("MaxSamples is %d: choose 2 (the first heartbeat adds two) to %d", c.MaxSamples, maxSamples))
	}
	if c.MinStdDev < time.Millisecond {
		errs = append(errs, fmt.Errorf("MinStdDev is %v: choose at least 1ms", c.MinStdDev))
	}
	if c.Pause < 0 || c.Pause > maxDuration {
		errs = append(errs, fmt.Errorf("Pause is %v: choose 0 to %v", c.Pause, maxDuration))
	}
	if c.FirstInterval < time.Millisecond || c.FirstInterval > maxDuration {
		errs = append(errs, fmt.Errorf("FirstInterval is %v: choose 1ms to %v", c.FirstInterval, maxDuration))
	}
	return errors.Join(errs...)
}

// DeadlineConfig tunes a detector that suspects a peer a fixed time after its
// last heartbeat.
type DeadlineConfig struct {
	// Interval is the time between heartbeats.
	Interval time.Duration
	// Pause is the time that a heartbeat may be overdue.
	Pause time.Duration
}

// Validate returns an error that names every invalid field and what to set.
func (c DeadlineConfig) Validate() error {
	var errs []error
	if c.Interval < time.Millisecond || c.Interval > maxDuration {
		errs = append(errs, fmt.Errorf("Interval is %v: choose 1ms to %v", c.Interval, maxDuration))
	}
	if c.Pause < 0 || c.Pause > maxDuration {
		errs = append(errs, fmt.Errorf("Pause is %v: choose 0 to %v", c.Pause, maxDuration))
	}
	return errors.Join(errs...)
}

// Detector watches one peer. Create one with [New] or [NewDeadline].
type Detector struct {
	cfg      Config
	deadline time.Duration // since the last heartbeat; 0: use phi
	started  bool
	last     time.Time
	history  history
}

// New returns a detector without heartbeats.
func New(cfg Config) Detector { return Detector{cfg: cfg} }

// NewDeadline returns a detector without heartbeats. It suspects its peer
// when a heartbeat is overdue by the pause or more: its suspicion is 0 before
// and [Max] from then on. It does not adapt, so it is predictable and needs no
// memory, but it is either slow, or wrong about irregular peers.
func NewDeadline(cfg DeadlineConfig) Detector {
	return Detector{cfg: Config{Threshold: Max}, deadline: cfg.Interval + cfg.Pause}
}

// Heartbeat records a heartbeat at now. The interval since the last one is
// remembered only if the peer was still available: a gap that spans an outage
// says nothing about how regular the heartbeats are.
func (d *Detector) Heartbeat(now time.Time) {
	switch {
	case d.deadline > 0:
	case !d.started:
		est := d.cfg.FirstInterval.Milliseconds()
		d.history.add(est-est/4, d.cfg.MaxSamples)
		d.history.add(est+est/4, d.cfg.MaxSamples)
	case d.Available(now):
		d.history.add(min(max(0, now.Sub(d.last)), maxInterval).Milliseconds(), d.cfg.MaxSamples)
	}
	d.started, d.last = true, now
}

// Restart begins a new interval at now without remembering the one it ends. It is
// for a watcher that was paused and could not receive heartbeats.
func (d *Detector) Restart(now time.Time) { d.last = now }

// Last returns the time of the last heartbeat or [Detector.Restart], zero before the first one.
func (d *Detector) Last() time.Time { return d.last }

// Monitoring reports whether any heartbeat was recorded.
func (d *Detector) Monitoring() bool { return d.started }

// Phi returns the suspicion at now: 0 before the first heartbeat, growing while
// none comes, at most [Max].
func (d *Detector) Phi(now time.Time) float64 {
	switch {
	case !d.started || d.deadline > 0 && now.Sub(d.last) < d.deadline:
		return 0
	case d.deadline > 0:
		return Max
	}
	mean, variance := d.history.moments()
	std := max(math.Sqrt(variance), ms(d.cfg.MinStdDev))
	return Of(ms(now.Sub(d.last)), mean+ms(d.cfg.Pause), std)
}

// Available reports whether the suspicion at now is below the threshold.
func (d *Detector) Available(now time.Time) bool { return d.Phi(now) < d.cfg.Threshold }

// Clone returns an independent copy.
func (d *Detector) Clone() Detector {
	c := *d
	c.history.ring = slices.Clone(d.history.ring)
	return c
}

// AppendState appends the canonical state, times relative to now.
func (d *Detector) AppendState(b []byte, now time.Time) []byte {
	if !d.started {
		return append(b, 0)
	}
	b = append(b, 1)
	b = binary.AppendVarint(b, int64(now.Sub(d.last)))
	h := &d.history
	b = binary.AppendUvarint(b, uint64(len(h.ring)))
	for i := range h.ring { // oldest first, wherever the ring begins
		b = binary.AppendVarint(b, h.ring[(h.next+i)%len(h.ring)])
	}
	return b
}

// Of is the formula: -log10 of the probability that a heartbeat comes later than
// diff, all in the same unit. It has two branches because each is imprecise on the
// other side of the mean.
func Of(diff, mean, std float64) float64 {
	y := (diff - mean) / std
	e := math.Exp(-y * (1.5976 + 0.070566*y*y))
	p := 1 - 1/(1+e)
	if diff > mean {
		p = e / (1 + e)
	}
	if p <= 0 {
		return Max
	}
	return min(Max, math.Abs(math.Log10(p)))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// history is a ring of the newest intervals in whole milliseconds. Sums of
// integers accumulate no rounding errors.
type history struct {
	ring       []int64
	next       int // index of the oldest one, once the ring is full
	sum, sumSq int64
}

func (h *history) add(v int64, most int) {
	if len(h.ring) < most {
		h.ring = append(h.ring, v)
	} else {
		old := h.ring[h.next]
		h.sum -= old
		h.sumSq -= old * old
		h.ring[h.next] = v
		h.next = (h.next + 1) % most
	}
	h.sum += v
	h.sumSq += v * v
}

// moments returns the mean and the population variance.
func (h *history) moments() (mean, variance float64) {
	n := float64(len(h.ring))
	mean = float64(h.sum) / n
	return mean, max(0, float64(h.sumSq)/n-mean*mean)
}
