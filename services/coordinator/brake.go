package coordinator

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// The brake holds voluntary moves back while commands are much slower than usual. What is usual is
// the baseline: the p99 of windows in which nothing moved voluntarily, smoothed. It stops the moves
// after some slow windows in a row, and after a pause lets one go, the probe. If the windows that
// follow are no slower than those without moves were, the moves are not to blame, and go on: at
// first at half rate. So an imbalance that is itself the reason is cured. While moves are stopped,
// the baseline is what users have without them: by that the probe is judged.

// BrakeState is what the brake does.
type BrakeState uint8

// The states.
const (
	BrakeReleased BrakeState = iota // moves go on, perhaps at a lower rate
	BrakeStopped                    // no voluntary move begins
	BrakeProbing                    // one may begin, or has begun and is being judged
)

// String returns the state in a word.
func (s BrakeState) String() string {
	switch s {
	case BrakeReleased:
		return "released"
	case BrakeStopped:
		return "stopped"
	case BrakeProbing:
		return "probing"
	}
	return "invalid"
}

// maxHalvings bounds how far the rate is lowered: 1/1024 of any limit is one at a time.
const maxHalvings = 10

// brake decides how many voluntary moves users can stand.
type brake struct {
	state    BrakeState
	baseline time.Duration // 0: not known yet
	slow     int           // slow windows in a row
	halvings uint8         // of the rate
	moved    bool          // a voluntary move was under way in this window
	since    time.Time     // when moves were stopped; zero: they are not held back
	stateAt  time.Time     // when the pause began, while stopped, or ended, while probing
	probeAt  time.Time     // when the probe began, while probing; zero: it has not
	noMoves  bool          // while probing, a plan has begun no move
	probes   int           // since the stop
	cause    window        // that stopped the moves
	usual    time.Duration // the baseline then
	last     window
}

// window is what the cards of one window say: how many latencies they count, and what 99 of 100 of
// these do not exceed.
type window struct {
	samples uint64
	p99     time.Duration
}

// part returns the part of a limit that the brake leaves, at least 1.
func (b *brake) part(limit int) int { return max(limit>>b.halvings, 1) }

// room returns how many voluntary moves may begin by the brake alone.
func (b *brake) room(cfg *Config, handoffs int) int {
	switch {
	case b.state == BrakeStopped:
		return 0
	case b.state == BrakeProbing:
		return one(b.probeAt.IsZero() || mutant.On("probe-alone"))
	}
	return max(b.part(cfg.MaxHandoffs)-handoffs, 0)
}

// moveBegan follows a voluntary move: the first one after the pause is the probe.
func (b *brake) moveBegan(now time.Time) {
	b.moved = true
	if b.state == BrakeProbing && b.probeAt.IsZero() {
		b.probeAt = now
		b.probes++
	}
}

// tick ends the pause. It reports whether it has.
func (b *brake) tick(now time.Time, cfg *Config) bool {
	if b.state != BrakeStopped || now.Sub(b.stateAt) < cfg.BrakePause || mutant.On("brake-probes") {
		return false
	}
	b.state, b.stateAt, b.probeAt, b.noMoves = BrakeProbing, now, time.Time{}, false
	return true
}

// isSlow reports whether commands were much slower than usual in a window.
func (b *brake) isSlow(w window, cfg *Config) bool {
	if w.samples < uint64(cfg.BrakeSamples) && !mutant.On("brake-samples") || b.baseline == 0 {
		return false
	}
	return float64(w.p99) >= cfg.BrakeFactor*float64(b.baseline) &&
		(w.p99-b.baseline >= cfg.BrakeExcess || mutant.On("brake-excess"))
}

// windowEnded judges the window that began at began and ends now. Moving are the voluntary moves
// that have not ended. It reports whether the state or the rate has changed.
func (b *brake) windowEnded(now, began time.Time, w window, moving int, cfg *Config) bool {
	before, rate := b.state, b.halvings
	slow := b.isSlow(w, cfg)
	switch {
	case b.state == BrakeReleased && !slow:
		b.slow = 0
		b.halvings -= uint8(one(b.halvings > 0))
	case b.state == BrakeReleased:
		if b.slow++; b.slow >= cfg.BrakeWindows || mutant.On("brake-two-windows") {
			b.stop(now, w)
		}
	case b.state == BrakeProbing && !b.probeAt.IsZero() && slow && !mutant.On("probe-judged"):
		b.pause(now) // the probe has made it worse
	case b.state == BrakeProbing && !slow && b.judged(began):
		b.state, b.slow = BrakeReleased, 0
	}
	if b.idle() {
		b.since = time.Time{}
	}
	b.learn(w, slow, cfg)
	b.last, b.moved = w, moving > 0
	return b.state != before || b.halvings != rate
}

// judged reports whether the probe has shown its effect, in a window that began after it. Its end is
// not waited for: it may be stuck. No probe is needed if there is nothing to move.
func (b *brake) judged(began time.Time) bool {
	if b.probeAt.IsZero() {
		return b.noMoves && !began.Before(b.stateAt)
	}
	return !began.Before(b.probeAt)
}

// planEnded follows plans: one may have named no move that could begin.
func (b *brake) planEnded() { b.noMoves = b.state == BrakeProbing && b.probeAt.IsZero() }

// stop stops the moves. When they go on, it is at half the rate of before.
func (b *brake) stop(now time.Time, w window) {
	if b.since.IsZero() {
		b.since, b.probes = now, 0
	}
	b.cause, b.usual, b.slow = w, b.baseline, 0
	b.halvings = min(b.halvings+1, maxHalvings)
	if mutant.On("brake-half-rate") {
		b.halvings = 0
	}
	b.pause(now)
}

func (b *brake) pause(now time.Time) { b.state, b.stateAt, b.probeAt = BrakeStopped, now, time.Time{} }

// learn moves the baseline towards the p99 of a window: down by any window, because moves make
// nothing faster; up only by one in which nothing moved voluntarily. While moves are held back it is
// that p99, and at first it is that of any window.
func (b *brake) learn(w window, slow bool, cfg *Config) {
	still := !b.moved || mutant.On("baseline-still")
	switch d := w.p99 - b.baseline; {
	case w.samples < uint64(cfg.BrakeSamples):
	case b.baseline == 0, still && b.state != BrakeReleased:
		b.baseline = w.p99
	case d < 0:
		b.baseline += d / time.Duration(cfg.BrakeFall)
	case still && !slow:
		b.baseline += d / time.Duration(cfg.BrakeRise)
	}
}

// idle reports whether no window need be judged.
func (b *brake) idle() bool { return b.state == BrakeReleased && b.halvings == 0 }

// BrakeView is what the brake does, and why.
type BrakeView struct {
	State BrakeState
	// Part is which part of the budget voluntary moves have when they are not stopped: 1/Part.
	Part int
	// Since is when they were stopped; zero: they are not held back.
	Since time.Time
	// Next is when one of them may begin, while all are stopped.
	Next time.Time
	// Probes are the moves that were tried since then.
	Probes int
	// Slow is the p99 of the window that stopped them, and Usual the baseline then.
	Slow, Usual time.Duration
	// P99 is that of the last window, in which Samples latencies were counted, and Baseline
	// that of now; 0: not known.
	P99, Baseline time.Duration
	Samples       uint64
}

func (b *brake) view(cfg *Config) BrakeView {
	v := BrakeView{
		State: b.state, Part: 1 << b.halvings, Since: b.since, Probes: b.probes,
		Slow: b.cause.p99, Usual: b.usual, P99: b.last.p99, Baseline: b.baseline, Samples: b.last.samples,
	}
	if b.state == BrakeStopped {
		v.Next = b.stateAt.Add(cfg.BrakePause)
	}
	return v
}

// Why says what the brake does and why; "": moves are not held back.
func (v BrakeView) Why() string {
	if v.Since.IsZero() {
		return ""
	}
	did := fmt.Sprintf("voluntary moves have 1/%d of the budget again", v.Part)
	switch v.State {
	case BrakeStopped:
		did = "voluntary moves are stopped"
	case BrakeProbing:
		did = "voluntary moves are tried one at a time"
	}
	return fmt.Sprintf("%s: the p99 of commands was %s, usually it is %s", did, roughly(v.Slow), roughly(v.Usual))
}

// roughly leaves out digits that say nothing: a p99 is known to a sixteenth.
func roughly(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}
