//go:build mutants

package spread

import (
	"os"
	"os/exec"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

const mutantVar = "ROOST_SPREAD_TEST_MUTANT"

func init() { mutant.Activate(os.Getenv(mutantVar)) }

// TestMutants runs the test that is about a guard without it: it must fail.
func TestMutants(t *testing.T) {
	for name, test := range map[string]string{
		"spread-placed":     "^TestPlace$",
		"spread-stored":     "^TestPlace$",
		"spread-number":     "^TestIdentity$",
		"spread-generation": "^TestIdentity$",
		"spread-all":        "^TestIdentity$",
		"spread-used":       "^TestIdentity$",
		"spread-empty":      "^TestIdentity$",
		"spread-epoch":      "^TestDown$",
		"spread-probe":      "^TestDown$",
	} {
		cmd := exec.Command(os.Args[0], "-test.run", test)
		cmd.Env = append(os.Environ(), mutantVar+"="+name)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s passes without the guard %s:\n%s", test, name, out)
		}
	}
}
