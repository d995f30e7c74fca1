//go:build mutants

package region

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

func TestGenerationMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "table-generation"} {
		mutant.Activate(name)
		if takesTable(t, 7, 8) != (name != "") {
			t.Errorf("mutant %q: whether the table of another generation is taken does not depend on it", name)
		}
	}
}
