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
	for name, test := range map[string]string{"purge-rate": "TestRate", "purge-full": "TestLongLife", "purge-failed-shard": "TestFailedShard"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+test+"$")
		cmd.Env = append(os.Environ(), mutantVar+"="+name)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s passes without the guard %s:\n%s", test, name, out)
		}
	}
}
