//go:build mutants

package region_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants shows that the scenarios notice when a guard is off.
func TestMutants(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, name := range []string{"claim", "floor-after-drain", "damaged-claim"} {
		caught := 0
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			mutant.Activate(name)
			if differs(string(raw)) {
				caught++
			}
			mutant.Activate("")
		}
		if caught == 0 {
			t.Errorf("mutant %s: no scenario differs", name)
		}
	}
}

// differs tells whether the scenario has another trace, or cannot go on.
func differs(text string) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	return newScenario().run(text) != text
}
