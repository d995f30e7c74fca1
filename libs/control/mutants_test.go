//go:build mutants

package control_test

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants shows what each guard is for.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, broken := range map[string]string{ // order-free: each for itself
		"sender-name":     "a region as another one",
		"sender-order":    "an order of a region",
		"sender-register": "a region that registers another one",
	} {
		mutant.Activate("")
		if slices.Contains(wrongSenders(), broken) {
			t.Errorf("%s is decided wrongly with all guards", broken)
		}
		mutant.Activate(name)
		if !slices.Contains(wrongSenders(), broken) {
			t.Errorf("without the guard %s, %s is still refused", name, broken)
		}
	}
}
