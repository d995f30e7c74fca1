//go:build mutants

package journal_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutantsOfRestore: without either of its rules, a restored journal would be taken for the one
// that the backup is of.
func TestMutantsOfRestore(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"restore-generation", "restore-term"} {
		mutant.Activate(name)
		failed := false
		restore(func(string, ...any) { failed = true })
		if !failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}
