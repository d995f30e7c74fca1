//go:build mutants

package allocation_test

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

const mutantVar = "ROOST_ALLOCATION_TEST_MUTANT"

func TestMain(m *testing.M) {
	mutant.Activate(os.Getenv(mutantVar))
	os.Exit(m.Run())
}

// TestMutants: without the guard the test that is about it fails.
func TestMutants(t *testing.T) {
	mutants := map[string]string{
		"candidate-status": "TestPrecedence", "candidate-unreachable": "TestUnreachable", "candidate-reads": "TestPlansKeepConstraints",
		"constraint-capacity": "TestPlansKeepConstraints", "constraint-pin": "TestPlansKeepConstraints",
		"constraint-cordon": "TestPlansKeepConstraints", "constraint-zone": "TestPlansKeepConstraints",
		"even-out-worth": "TestPlanningEnds", "repair-gains": "TestNothingGained", "plan-totals": "TestPlansKeepConstraints",
		"hash-bound": "TestHashBound", "load-cooldown": "TestLoadRules", "load-hysteresis": "TestLoadRules",
		"check-status": "TestPlantedViolations", "check-reads": "TestPlantedViolations", "check-capacity": "TestPlantedViolations",
		"check-pin": "TestPlantedViolations", "check-cooling": "TestCheckLoad", "check-cordon": "TestPlantedViolations", "check-zone": "TestPlantedViolations",
		"share-capacity": "TestZoneIsLost", "check-share": "TestOverShare",
		"check-reason": "TestCheckReason", "load-less-work": "TestWaitingEnds",
		"load-unknown-processors": "TestDivisor", "load-gc-bound": "TestDivisor",
	}
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		test := mutants[name]
		cmd := exec.Command(os.Args[0], "-test.run", "^"+test+"$", "-seed", "1") // some seeds do not show everything
		cmd.Env = append(os.Environ(), mutantVar+"="+name)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s passes without the guard %s:\n%s", test, name, out)
		}
	}
}
