//go:build mutants

package entity_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants shows what happens without the guards of reading stored data. Each returns
// what is wrong, and nothing while the guard is there.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, broken := range map[string]func(*testing.T) string{
		"snapshot-form":  snapshots,
		"partly-read":    later,
		"later-version":  wrong,
		"lossy-snapshot": lossy,
		"strict-shape":   shapes,
		"apply-broken":   unapplied,
		"strict-input":   strictInputs,
		"enum-values":    unknownValues,
	} {
		mutant.Activate("")
		if why := broken(t); why != "" {
			t.Errorf("with the guard: %s", why)
		}
		mutant.Activate(name)
		why := broken(t)
		if why == "" {
			t.Errorf("%-21s SURVIVES", name)
		}
		t.Logf("%-21s %s", name, why)
	}
}
