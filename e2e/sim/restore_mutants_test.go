//go:build mutants

package sim

import (
	"os"
	"os/exec"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

const restoreMutantVar = "ROOST_SIM_TEST_MUTANT"

func init() { mutant.Activate(os.Getenv(restoreMutantVar)) }

// TestMutantsOfRestore runs TestRestores without one of the rules of a restore: it must fail.
func TestMutantsOfRestore(t *testing.T) {
	for _, name := range []string{"restore-generation", "restore-term", "table-generation"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestRestores$/^1$")
		cmd.Env = append(os.Environ(), restoreMutantVar+"="+name)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("TestRestores passes without %s:\n%s", name, out)
		}
		t.Logf("%s: %.400s", name, out)
	}
}

// TestMutantsOfDeletes runs TestDeletes without one of the rules that it is about: it must fail.
func TestMutantsOfDeletes(t *testing.T) {
	for name, part := range map[string]string{"full-replaces": "facts-1", "heartbeat-deleted": "heartbeat-1", "all-wanted": "facts-1", "loss-stored": "dies-1"} { // order-free
		cmd := exec.Command(os.Args[0], "-test.run", "^TestDeletes$/^"+part+"$")
		cmd.Env = append(os.Environ(), restoreMutantVar+"="+name)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("TestDeletes passes without %s:\n%s", name, out)
		}
		t.Logf("%s: %.400s", name, out)
	}
}
