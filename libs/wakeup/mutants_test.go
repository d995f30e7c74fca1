//go:build mutants

package wakeup_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/mutanttest"
)

// seeds returns a test for each of n seeds.
func seeds(n uint64, test func(testing.TB, uint64)) (tests []func(testing.TB)) {
	for seed := range n {
		tests = append(tests, func(t testing.TB) { test(t, seed) })
	}
	return tests
}

// TestMutants checks that the tests of the keeper fail without a guard.
func TestMutants(t *testing.T) {
	names := []string{"fires-early", "beyond-horizon", "missed-count", "new-wake", "page-older", "page-outdated", "in-doubt", "back-off", "deleted-rows", "unknown-rows", "deleted-in-page", "gone-rows", "blocked-ready", "firing-ready", "coverage-lost", "restart-held", "blocked-left", "any-purge", "any-room", "quiet", "no-clock", "two-clocks", "set-by-earliest"}
	tests := []func(testing.TB){beyondTheHorizon, pageOlder, pageOutdated, missed, lostAnswers, failingHoldsNobodyBack, deletedEntity, deletedWhileRead, gone, hangHoldsNobodyBack, hangsHoldNobodyBack, sweepAgainInBusyShard, quiet, noRoom, noClock, oneClock}
	keeper := func(t testing.TB, seed uint64) { random(t, seed) }
	mutanttest.Caught(t, names, append(tests, seeds(5, keeper)...)...)
}

// TestStartMutants checks that the tests of the starter fail without a guard.
func TestStartMutants(t *testing.T) {
	names := []string{"start-limit", "start-rate", "start-grid", "restart-back-off", "activity-order", "next-page", "restart-lost"}
	tests := []func(testing.TB){startOrder, startFailures, startConstant, startRate}
	mutanttest.Caught(t, names, append(tests, seeds(10, startRandom)...)...)
}
