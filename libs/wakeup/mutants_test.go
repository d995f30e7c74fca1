//go:build mutants

package wakeup_test

import (
	"runtime"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// failureCatcher takes the failures of a test that is run with a mutant.
type failureCatcher struct {
	testing.TB
	failed bool
}

func (p *failureCatcher) Helper()               {}
func (p *failureCatcher) Errorf(string, ...any) { p.failed = true }
func (p *failureCatcher) Fatal(...any)          { p.failed = true; runtime.Goexit() }
func (p *failureCatcher) Fatalf(string, ...any) { p.failed = true; runtime.Goexit() }

// TestMutants checks that the comparison with the model fails without a guard.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"fires-early", "beyond-horizon", "missed-count", "new-wake", "page-older", "page-outdated", "in-doubt", "back-off", "deleted-rows", "unknown-rows", "deleted-in-page", "gone-rows", "blocked-ready", "firing-ready", "coverage-lost", "restart-held", "blocked-left", "any-purge", "any-room", "quiet", "no-clock", "two-clocks", "set-by-earliest"} {
		mutant.Activate(name)
		p := &failureCatcher{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, test := range []func(testing.TB){beyondTheHorizon, pageOlder, pageOutdated, missed, lostAnswers, failingHoldsNobodyBack, deletedEntity, deletedWhileRead, gone, hangHoldsNobodyBack, hangsHoldNobodyBack, sweepAgainInBusyShard, quiet, noRoom, noClock, oneClock} {
				test(p)
			}
			for seed := range uint64(5) {
				random(p, seed)
			}
		}()
		<-done
		mutant.Activate("")
		if !p.failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}

// TestStartMutants checks that the tests of the starter fail without a guard.
func TestStartMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"start-limit", "start-rate", "start-grid", "restart-back-off", "activity-order", "next-page", "restart-lost"} {
		mutant.Activate(name)
		p := &failureCatcher{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, test := range []func(testing.TB){startOrder, startFailures, startConstant, startRate} {
				test(p)
			}
			for seed := range uint64(10) {
				startRandom(p, seed)
			}
		}()
		<-done
		mutant.Activate("")
		if !p.failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}
