//go:build mutants

package purge_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

const mutantVar = "ROOST_PURGE_TEST_MUTANT"

func TestMain(m *testing.M) {
	mutant.Activate(os.Getenv(mutantVar))
	os.Exit(m.Run())
}

// TestMutants: without the guard the test that is about it fails.
func TestMutants(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestRate$")
	cmd.Env = append(os.Environ(), mutantVar+"=purge-rate")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("TestRate passes without the guard:\n%s", out)
	}
}
