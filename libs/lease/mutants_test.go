//go:build mutants

package lease

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants checks that a seed notices each mutant.
func TestMutants(t *testing.T) {
	mutant.Activate("term-per-incarnation")
	defer mutant.Activate("")
	for seed := range uint64(300) {
		w := newWorld(seed, 3)
		w.after(0, w.nemesis)
		w.run(60 * time.Second)
		if len(w.failures) > 0 {
			t.Logf("caught by seed %d: %s", seed, w.failures[0])
			return
		}
	}
	t.Error("mutant term-per-incarnation survives")
}
