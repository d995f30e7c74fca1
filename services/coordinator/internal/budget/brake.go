package budget

import (
	"fmt"
	"time"
)

// The brake stops voluntary moves while commands are much slower than usual. The usual latency is
// the baseline: the smoothed p99 of windows without a voluntary move. After some slow windows in a
// row, the brake stops voluntary moves. After a pause it lets one voluntary move begin, the trial
// move. If a window that begins after the trial is not slow, the moves are not to blame. Then moves go on, at
// first at half the rate. So an imbalance that itself makes commands slow is repaired. While moves are
// stopped, the baseline is the latency that users have without moves. The trial is judged by it.

// BrakeState is the state of the brake.
type BrakeState uint8

// The states.
const (
	BrakeReleased BrakeState = iota // moves go on, perhaps at a lower rate
	BrakeStopped                    // no voluntary move may begin
	BrakeTrying                     // the trial may begin, or has begun and is not judged yet
)

// String returns the name of the state.
func (s BrakeState) String() string {
	switch s {
	case BrakeReleased:
		return "released"
	case BrakeStopped:
		return "stopped"
	case BrakeTrying:
		return "probing"
	}
	return "invalid"
}

// maxHalvings bounds how often the rate is halved. In practice, 1/1024 of a limit is less than 1, so
// one move at a time is left.
const maxHalvings = 10

// brake decides how many voluntary moves may begin, by the latency of commands.
type brake struct {
	state    BrakeState
	baseline time.Duration // 0: not known yet
	slow     int           // slow windows in a row
	halvings uint8         // how often the rate is halved
	moved    bool          // a voluntary move was in progress in this window
	since    time.Time     // when moves were stopped; zero: they are not held back
	stateAt  time.Time     // stopped: when the pause began; trying: when the pause ended
	trialAt  time.Time     // trying: when the trial began; zero: it has not begun
	noMoves  bool          // trying: a plan has ended, and no move has begun
	trials   int           // how many trials have begun since moves were stopped
	cause    window        // the window that stopped the moves
	usual    time.Duration // the baseline at that time
	last     window        // the window that ended last
}

// window holds the latencies that gateways report in one window.
type window struct {
	samples uint64        // the number of latencies
	p99     time.Duration // 99% of the latencies do not exceed it
}

// part returns how much of a limit the brake leaves. It is at least 1.
func (b *brake) part(limit int) int { return max(limit>>b.halvings, 1) }

// room returns how many voluntary moves the brake allows to begin now. Other limits are not counted.
func (b *brake) room(cfg *Config, handoffs int) int {
	switch {
	case b.state == BrakeStopped:
		return 0
	case b.state == BrakeTrying:
		return toInt(b.trialAt.IsZero()) //mutant:true trial-alone b.trialAt.IsZero()
	}
	return max(b.part(cfg.MaxHandoffs)-handoffs, 0)
}

// moveBegan is called when a voluntary move begins. The first move after the pause is the trial.
func (b *brake) moveBegan(now time.Time) {
	b.moved = true
	if b.state == BrakeTrying && b.trialAt.IsZero() {
		b.trialAt = now
		b.trials++
	}
}

// tick ends the pause when its time is over. It reports whether the pause has just ended.
func (b *brake) tick(now time.Time, cfg *Config) bool {
	if b.state != BrakeStopped || now.Sub(b.stateAt) < cfg.BrakePause { //mutant:true brake-trials
		return false
	}
	b.state, b.stateAt, b.trialAt, b.noMoves = BrakeTrying, now, time.Time{}, false
	return true
}

// isSlow reports whether commands were much slower than usual in a window.
func (b *brake) isSlow(w window, cfg *Config) bool {
	//mutant:false brake-samples w.samples < uint64(cfg.BrakeSamples)
	if w.samples < uint64(cfg.BrakeSamples) || b.baseline == 0 {
		return false
	}
	//mutant:true brake-excess w.p99-b.baseline >= cfg.BrakeExcess
	return float64(w.p99) >= cfg.BrakeFactor*float64(b.baseline) &&
		w.p99-b.baseline >= cfg.BrakeExcess
}

// windowEnded judges the window that began at the time began and ends now. The parameter moving is the
// number of voluntary moves in progress. The result reports whether the state or the rate has changed.
func (b *brake) windowEnded(now, began time.Time, w window, moving int, cfg *Config) bool {
	before, rate := b.state, b.halvings
	slow := b.isSlow(w, cfg)
	switch {
	case b.state == BrakeReleased && !slow:
		b.slow = 0
		b.halvings -= uint8(toInt(b.halvings > 0))
	case b.state == BrakeReleased:
		if b.slow++; b.slow >= cfg.BrakeWindows { //mutant:true brake-two-windows
			b.stop(now, w)
		}
		//mutant:false trial-judged
	case b.state == BrakeTrying && !b.trialAt.IsZero() && slow:
		b.pause(now) // the trial has made commands slow
	case b.state == BrakeTrying && !slow && b.judged(began, w, cfg):
		b.state, b.slow = BrakeReleased, 0
	}
	if b.idle() {
		b.since = time.Time{}
	}
	b.learn(w, slow, cfg)
	b.last, b.moved = w, moving > 0
	return b.state != before || b.halvings != rate
}

// judged reports whether a window that began at the time began can judge the trial. It can if it
// began after the trial did. The trial need not have ended, because a move may be stuck. But while it is
// in progress, a window with few commands says nothing: perhaps they wait for the trial. If there is nothing to
// move, no trial is needed.
func (b *brake) judged(began time.Time, w window, cfg *Config) bool {
	if b.trialAt.IsZero() {
		return b.noMoves && !began.Before(b.stateAt)
	}
	known := w.samples >= uint64(cfg.BrakeSamples) || !b.moved //mutant:true trial-samples
	return !began.Before(b.trialAt) && known
}

// planEnded is called when a plan has ended. Perhaps none of the plan's moves could begin.
func (b *brake) planEnded() { b.noMoves = b.state == BrakeTrying && b.trialAt.IsZero() }

// stop stops voluntary moves, and halves the rate at which they go on later.
func (b *brake) stop(now time.Time, w window) {
	if b.since.IsZero() {
		b.since, b.trials = now, 0
	}
	b.cause, b.usual, b.slow = w, b.baseline, 0
	b.halvings = min(b.halvings+1, maxHalvings)
	//mutant:do brake-half-rate b.halvings = 0
	b.pause(now)
}

func (b *brake) pause(now time.Time) { b.state, b.stateAt, b.trialAt = BrakeStopped, now, time.Time{} }

// learn moves the baseline towards the p99 of a window. Any window may lower the baseline, because
// moves make nothing faster. Only a window without a voluntary move that is not slow may raise it. The
// first window sets the baseline to its p99. While the brake is not released, so does every window
// without a voluntary move.
func (b *brake) learn(w window, slow bool, cfg *Config) {
	still := !b.moved //mutant:true baseline-still
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

// idle reports whether the brake limits nothing.
func (b *brake) idle() bool { return b.state == BrakeReleased && b.halvings == 0 }

// BrakeView is the state of the brake, and its reason.
type BrakeView struct {
	State BrakeState
	// Part is the divisor of the budget: voluntary moves have 1/Part of it while they are not stopped.
	Part int
	// Since is the time when voluntary moves were stopped; zero: the brake limits nothing.
	Since time.Time
	// Next is the time when the next trial may begin; zero: moves are not stopped.
	Next time.Time
	// Trials is the number of trials that have begun after Since.
	Trials int
	// Slow is the p99 of the window that stopped the moves. Usual is the baseline at that time.
	Slow, Usual time.Duration
	// P99 is the p99 of the last window, which has Samples latencies. Baseline is the present
	// baseline. 0: not known.
	P99, Baseline time.Duration
	Samples       uint64
}

func (b *brake) view(cfg *Config) BrakeView {
	v := BrakeView{
		State: b.state, Part: 1 << b.halvings, Since: b.since, Trials: b.trials,
		Slow: b.cause.p99, Usual: b.usual, P99: b.last.p99, Baseline: b.baseline, Samples: b.last.samples,
	}
	if b.state == BrakeStopped {
		v.Next = b.stateAt.Add(cfg.BrakePause)
	}
	return v
}

// Why describes the effect of the brake, and its reason; "": the brake limits nothing.
func (v BrakeView) Why() string {
	if v.Since.IsZero() {
		return ""
	}
	did := fmt.Sprintf("voluntary moves have 1/%d of the budget again", v.Part)
	switch v.State {
	case BrakeStopped:
		did = "voluntary moves are stopped"
	case BrakeTrying:
		did = "voluntary moves are tried one at a time"
	}
	return fmt.Sprintf("%s: the p99 of commands was %s, usually it is %s", did, Roughly(v.Slow), Roughly(v.Usual))
}

// Roughly rounds a p99 to the digits that are known: a p99 is exact to a sixteenth of it.
func Roughly(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}
