//go:build mutants

package gateway

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants: two keyed commands for one entity are under way; the region
// refuses the first for itself. Sent again behind the second, it would turn their
// order.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "overtaken"} {
		mutant.Activate(name)
		got := runScenario(t, `coordinators c1
table c1 1.1 T/0 1.1 serving r1
up r1 1
submit 1 T/x Do key=a
submit 2 T/x Do key=b
answer 1 rejected unavailable
wait 300ms
----`)
		if again := strings.Contains(got, "send 3: a Do"); again != (name != "") {
			t.Errorf("mutant %q: the first command is sent again: %t\n%s", name, again, got)
		}
	}
}
