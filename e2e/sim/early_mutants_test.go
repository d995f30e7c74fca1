//go:build mutants

package sim

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutantsOfEarlyRetries shows that sends which sleep although nothing is in their way are noticed.
func TestMutantsOfEarlyRetries(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"served-anew", "early-retry"} {
		mutant.Activate(name)
		noticed := false
		for seed := uint64(1); seed <= 10 && !noticed; seed++ {
			failing, _ := sendsWake(t, seed)
			noticed = failing != ""
		}
		mutant.Activate("")
		if !noticed {
			t.Errorf("mutant %s: no send fails in the end", name)
		}
	}
}
