//go:build mutants

package region

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutantsOfBudget: what is granted once must come back.
func TestMutantsOfBudget(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("budget-returned")
	for seed := range uint64(200) {
		if budgetRun(seed) != nil {
			return
		}
	}
	t.Error("mutant budget-returned: no run notices")
}
