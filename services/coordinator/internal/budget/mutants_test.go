//go:build mutants

package budget

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutantsOfBudget: handoffs would exceed the budget, or be held back without need.
func TestMutantsOfBudget(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, rule := range map[string]string{
		"budget-at-once": "at once", "budget-per-region": "per region", "budget-per-minute": "per minute",
		"required-braked": "moves are stopped", "drain-braked": "moves are stopped", "brake": "moves are stopped",
		"brake-two-windows": "two windows", "brake-samples": "few samples", "brake-excess": "small excess",
		"brake-trials": "a trial after the pause", "trial-alone": "a trial after the pause",
		"trial-judged": "the trial is judged", "brake-half-rate": "the trial is judged",
		"trial-samples": "the trial stalls", "baseline-still": "the baseline",
	} {
		mutant.Activate(name)
		if budgetRules[rule]() == "" {
			t.Errorf("mutant %q is not noticed by %q", name, rule)
		}
	}
}
