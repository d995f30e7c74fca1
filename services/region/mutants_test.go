//go:build mutants

package region_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
)

// TestMutants shows that the scenarios notice when a guard is off.
func TestMutants(t *testing.T) {
	for _, name := range []string{"quarantine-known", "quarantine-handed-on", "claim", "min-epoch-after-drain", "damaged-claim", "lower-term", "order-check", "leave-all-cores", "budget-returned", "wrote", "ready-latch", "refused-while-held", "kept-given-once", "kept-epoch", "fetched-epoch", "kept-late", "kept-outlived", "leave-keeps", "router-fed", "full-fed", "successor-told", "successor-told-again", "successor-epoch", "released-gone-on", "refused-row", "fires-before-told", "served-anew", "released-sends"} {
		mutant.Activate(name)
		caught := scenariotest.Differing(t, play)
		mutant.Activate("")
		if caught == 0 {
			t.Errorf("mutant %s: no scenario differs", name)
		}
	}
}

// TestMutantsOfWaiting: without a guard there may be so many waiting turns in each shard core.
func TestMutantsOfWaiting(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("waiting-divided")
	if n := waitingTurns(t, 3, 31); n <= 31 {
		t.Errorf("mutant waiting-divided: %d turns wait", n)
	}
}
