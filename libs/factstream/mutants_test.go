//go:build mutants

package factstream

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants: without any of its rules, a repair would let what was lost come back, or lose what is needed.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, test := range map[string]func(fails){
		"facts-holes": lostRecord, "facts-shards": firstContradicts, "facts-contradiction": contradictions, "facts-lost-type": lostType, "facts-loss": lostType,
		"facts-without": lostType, "facts-all": all, "facts-forms": lostRecord, "facts-epoch": lostRecord, "facts-term": nextTerm, "facts-margin": nextTerm,
	} {
		mutant.Activate(name)
		failed := false
		test(func(string, ...any) { failed = true })
		if !failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}
