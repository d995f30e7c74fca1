package budget

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// The rules of the budget, and of the brake as a part of it. Each rule is a function that returns how
// the rule is broken; "": it holds.

// budgetWorld is a budget with three regions, and rows that hand off.
type budgetWorld struct {
	Budget
	cfg        Config
	now        time.Time
	r1, r2, r3 sharding.NodeID
}

func newBudgetWorld(change func(*Config)) *budgetWorld {
	w := &budgetWorld{cfg: DefaultConfig(), now: time.Unix(1e6, 0), r1: sharding.NodeID{Addr: "r1"}, r2: sharding.NodeID{Addr: "r2"}, r3: sharding.NodeID{Addr: "r3"}}
	change(&w.cfg)
	return w
}

// causeOf has a cause for each need.
var causeOf = map[Need]sharding.Cause{Required: sharding.CauseLeave, Drained: sharding.CauseDrain, Voluntary: sharding.CausePin}

func (w *budgetWorld) begin(from, to sharding.NodeID, n Need) {
	w.Count(Transit{}, Transit{Row: sharding.Row{Owner: from, Phase: sharding.HandingOff}, Successor: to, Cause: causeOf[n]})
	if n == Voluntary {
		w.MoveBegan(w.now, &w.cfg)
	}
}

func (w *budgetWorld) end(from, to sharding.NodeID, n Need) {
	w.Count(Transit{Row: sharding.Row{Owner: from, Phase: sharding.HandingOff}, Successor: to, Cause: causeOf[n]}, Transit{})
}

// want compares the budget's answer about a handoff with the expected one.
func (w *budgetWorld) want(what string, n Need, from, to sharding.NodeID, l Limit) string {
	if got := w.Exceeds(w.now, &w.cfg, n, from, to); got != l {
		return fmt.Sprintf("%s: the limit is %d, want %d", what, got, l)
	}
	return ""
}

// atOnce: the number of handoffs in progress is bounded, whatever their causes are.
func atOnce() string {
	w := newBudgetWorld(func(c *Config) { c.MaxHandoffs = 2 })
	w.begin(w.r1, w.r2, Voluntary)
	fits := w.want("the second one", Required, w.r1, sharding.NodeID{}, NoLimit)
	w.begin(w.r1, sharding.NodeID{}, Required)
	full := cmp.Or(
		w.want("a region leaves", Required, w.r2, sharding.NodeID{}, AtOnce),
		w.want("a drain", Drained, w.r2, sharding.NodeID{}, AtOnce),
		w.want("a move", Voluntary, w.r2, w.r1, AtOnce))
	w.end(w.r1, w.r2, Voluntary)
	return cmp.Or(fits, full, w.want("after an end", Required, w.r2, sharding.NodeID{}, NoLimit))
}

// perRegion: the number of handoffs from a region and to a region is bounded, unless the owner leaves.
func perRegion() string {
	w := newBudgetWorld(func(c *Config) { c.MaxHandoffsPerRegion = 1 })
	w.begin(w.r1, w.r2, Voluntary)
	return cmp.Or(
		w.want("from the same region", Voluntary, w.r1, w.r3, FromRegion),
		w.want("to the same region", Voluntary, w.r3, w.r2, ToRegion),
		w.want("between others", Voluntary, w.r2, w.r3, NoLimit),
		w.want("a drain of the same region", Drained, w.r1, sharding.NodeID{}, FromRegion),
		w.want("a drain of another region", Drained, w.r3, sharding.NodeID{}, NoLimit),
		w.want("the region leaves", Required, w.r1, sharding.NodeID{}, NoLimit))
}

// perMinute: the number of voluntary moves that begin in any minute is bounded.
func perMinute() string {
	w := newBudgetWorld(func(c *Config) { c.MaxMovesPerMinute = 2 })
	w.begin(w.r1, w.r2, Voluntary)
	w.now = w.now.Add(30 * time.Second)
	w.begin(w.r1, w.r2, Drained)
	w.begin(w.r1, w.r2, Voluntary)
	full := cmp.Or(
		w.want("a third one", Voluntary, w.r1, w.r2, PerMinute),
		w.want("a drain", Drained, w.r1, sharding.NodeID{}, NoLimit),
		w.want("a region leaves", Required, w.r1, sharding.NodeID{}, NoLimit))
	w.now = w.now.Add(30 * time.Second)
	next := w.want("a minute after the first", Voluntary, w.r1, w.r2, NoLimit)
	w.begin(w.r1, w.r2, Voluntary)
	return cmp.Or(full, next, w.want("the fourth one", Voluntary, w.r1, w.r2, PerMinute))
}

// windows lets windows pass, each with the given number of latencies and p99.
func (w *budgetWorld) windows(n int, samples uint64, p99 time.Duration) {
	for range n {
		began := w.now
		for range int(w.cfg.BrakeWindow / time.Second) {
			w.now = w.now.Add(time.Second)
			w.brake.tick(w.now, &w.cfg)
		}
		w.brake.windowEnded(w.now, began, window{samples, p99}, w.moving, &w.cfg)
	}
}

const (
	quick = 10 * time.Millisecond
	slow  = 200 * time.Millisecond
)

// newBrakeWorld returns a budget whose brake has a baseline.
func newBrakeWorld() *budgetWorld {
	w := newBudgetWorld(func(*Config) {})
	w.windows(2, 1000, quick)
	return w
}

// stopped returns a budget whose brake has stopped the moves, because commands were slow.
func stopped() *budgetWorld {
	w := newBrakeWorld()
	w.begin(w.r1, w.r2, Voluntary)
	w.windows(2, 1000, slow)
	w.end(w.r1, w.r2, Voluntary)
	return w
}

// is compares the state of the brake and the part of the
func (w *budgetWorld) is(what string, state BrakeState, part int) string {
	if v := w.brake.view(&w.cfg); v.State != state || v.Part != part || v.Since.IsZero() != (state == BrakeReleased && part == 1) {
		return fmt.Sprintf("%s: the brake is %v at 1/%d since %v, want %v at 1/%d", what, v.State, v.Part, v.Since, state, part)
	}
	return ""
}

func (w *budgetWorld) mayMove(what string, may bool) string {
	if may {
		return w.want(what, Voluntary, w.r1, w.r2, NoLimit)
	}
	return w.want(what, Voluntary, w.r1, w.r2, ByBrake)
}

// twoWindows: one slow window does not stop moves, two slow windows in a row do.
func twoWindows() string {
	w := newBrakeWorld()
	w.begin(w.r1, w.r2, Voluntary)
	w.windows(1, 1000, slow)
	one := w.is("after a slow window", BrakeReleased, 1)
	w.windows(1, 1000, quick)
	w.windows(1, 1000, slow)
	between := w.is("with a quick one between", BrakeReleased, 1)
	w.windows(1, 1000, slow)
	return cmp.Or(one, between, w.is("after two", BrakeStopped, 2), w.mayMove("after two", false))
}

// fewSamples: a window with few commands is never slow, and does not change the baseline.
func fewSamples() string {
	w := newBrakeWorld()
	w.windows(10, 199, slow)
	return cmp.Or(w.is("with few commands", BrakeReleased, 1), w.baselineIs(quick))
}

func (w *budgetWorld) baselineIs(d time.Duration) string {
	if got := w.brake.baseline; got != d {
		return fmt.Sprintf("the baseline is %v, want %v", got, d)
	}
	return ""
}

// smallExcess: a small excess stops no moves, even if commands take many times the usual time.
func smallExcess() string {
	w := newBudgetWorld(func(*Config) {})
	w.windows(2, 1000, time.Millisecond)
	w.begin(w.r1, w.r2, Voluntary)
	w.windows(2, 1000, 10*time.Millisecond)
	return w.is("ten times a millisecond", BrakeReleased, 1)
}

// stopsMoves: while voluntary moves are stopped, required handoffs and drains go on.
func stopsMoves() string {
	w := stopped()
	return cmp.Or(
		w.mayMove("stopped", false),
		w.want("a region leaves", Required, w.r1, sharding.NodeID{}, NoLimit),
		w.want("a drain", Drained, w.r1, sharding.NodeID{}, NoLimit))
}

// trialAfterPause: after the pause, one move may begin alone: the trial.
func trialAfterPause() string {
	w := stopped()
	w.windows(5, 1000, quick)
	before := w.mayMove("before the pause is over", false)
	w.windows(1, 1000, quick)
	trial := w.mayMove("after the pause", true)
	w.begin(w.r1, w.r2, Voluntary)
	during := w.mayMove("while the trial is in progress", false)
	w.end(w.r1, w.r2, Voluntary)
	return cmp.Or(before, trial, during, w.mayMove("while the trial is judged", false))
}

// trialIsJudged: if the trial makes commands slow, a pause follows. Otherwise moves go on at half the
// rate, and each window that is not slow doubles the rate.
func trialIsJudged() string {
	w := stopped()
	w.windows(6, 1000, quick)
	w.begin(w.r1, w.r2, Voluntary)
	w.windows(1, 1000, slow)
	w.end(w.r1, w.r2, Voluntary)
	worse := w.is("after a trial that has made it worse", BrakeStopped, 2)
	w.windows(6, 1000, quick)
	w.begin(w.r1, w.r2, Voluntary)
	w.end(w.r1, w.r2, Voluntary)
	w.windows(1, 1000, quick)
	good := w.is("after a trial that has not", BrakeReleased, 2)
	for range w.cfg.MaxHandoffs / 2 {
		w.begin(w.r1, w.r2, Voluntary)
	}
	half := w.mayMove("with half of the budget taken", false)
	w.windows(1, 1000, quick)
	return cmp.Or(worse, good, half, w.is("after a quick window", BrakeReleased, 1), w.mayMove("at the full rate", true))
}

// trialStalls: a window with few commands does not judge a trial that was in progress in it. Without any
// commands, the window after the trial does.
func trialStalls() string {
	w := stopped()
	w.windows(6, 1000, quick)
	w.begin(w.r1, w.r2, Voluntary)
	w.windows(2, 50, slow)
	stalled := w.is("while few commands are executed", BrakeTrying, 2)
	w.end(w.r1, w.r2, Voluntary)
	w.windows(1, 50, slow)
	ended := w.is("in the window in which the trial ends", BrakeTrying, 2)
	w.windows(1, 0, 0)
	return cmp.Or(stalled, ended, w.is("after it", BrakeReleased, 2))
}

// baselineIsStill: only windows without a voluntary move raise the baseline.
func baselineIsStill() string {
	w := newBrakeWorld()
	w.begin(w.r1, w.r2, Voluntary)
	w.windows(1, 1000, quick)
	w.windows(20, 1000, 19*time.Millisecond)
	return w.baselineIs(quick)
}

// imbalanceIsCured: if commands are slow without moves too, moves go on.
func imbalanceIsCured() string {
	w := newBrakeWorld()
	w.windows(2, 1000, slow)
	stopped := w.is("by an imbalance", BrakeStopped, 2)
	w.windows(6, 1000, slow)
	w.begin(w.r1, w.r2, Voluntary)
	w.end(w.r1, w.r2, Voluntary)
	w.windows(1, 1000, slow)
	half := w.is("after the trial", BrakeReleased, 2)
	w.begin(w.r1, w.r2, Voluntary)
	w.windows(2, 1000, slow)
	full := w.is("while it is as slow as without moves", BrakeReleased, 1)
	w.windows(8, 1000, quick)
	if w.brake.baseline > 2*quick {
		return "what was slow remains usual"
	}
	return cmp.Or(stopped, half, full)
}

// nothingToMove: if there is nothing to move, the brake is released without a trial.
func nothingToMove() string {
	w := stopped()
	w.windows(8, 1000, slow)
	unknown := w.is("before that is known", BrakeTrying, 2)
	w.brake.planEnded()
	w.windows(1, 1000, slow)
	half := w.is("after a plan and a window", BrakeReleased, 2)
	w.windows(1, 0, 0)
	return cmp.Or(unknown, half, w.is("after another window", BrakeReleased, 1))
}

// budgetRules are the rules by name.
var budgetRules = map[string]func() string{
	"at once": atOnce, "per region": perRegion, "per minute": perMinute,
	"two windows": twoWindows, "few samples": fewSamples, "small excess": smallExcess, "moves are stopped": stopsMoves,
	"a trial after the pause": trialAfterPause, "the trial is judged": trialIsJudged, "the trial stalls": trialStalls,
	"the baseline": baselineIsStill, "an imbalance is cured": imbalanceIsCured, "nothing to move": nothingToMove,
}

func TestBudget(t *testing.T) {
	for name, rule := range budgetRules {
		if broken := rule(); broken != "" {
			t.Errorf("%s: %s", name, broken)
		}
	}
}

// TestBrakeStopsSooner: if the brake stops moves again before the rate is full, it halves the rate again.
func TestBrakeStopsSooner(t *testing.T) {
	w := stopped()
	for n := 2; n <= 3; n++ {
		w.windows(6, 1000, quick)
		w.begin(w.r1, w.r2, Voluntary)
		w.end(w.r1, w.r2, Voluntary)
		w.windows(1, 1000, quick)
		w.begin(w.r1, w.r2, Voluntary)
		w.windows(2, 1000, slow)
		w.end(w.r1, w.r2, Voluntary)
		if broken := w.is("stopped again", BrakeStopped, 1<<n); broken != "" {
			t.Error(broken)
		}
	}
}
