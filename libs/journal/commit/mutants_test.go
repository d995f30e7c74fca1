//go:build mutants

package commit_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants checks that loads without a waiting caller are noticed when they take all tokens.
func TestMutants(t *testing.T) {
	mutant.Activate("background-loads")
	t.Cleanup(func() { mutant.Activate("") })
	failed := false
	backgroundLoads(t, func(string, ...any) { failed = true })
	if !failed {
		t.Error("mutant background-loads: no test fails")
	}
}
