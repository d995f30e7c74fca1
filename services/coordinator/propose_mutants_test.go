//go:build mutants

package coordinator

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutantsOfProposals: a proposal would forget which regions leave, what operators want, or where a
// rollout leads, and shards would go elsewhere.
func TestMutantsOfProposals(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "plan-without", "plan-steering", "plan-target"} {
		mutant.Activate(name)
		if unlike, _ := unlikeProposed(t, false); (unlike > 0) != (name != "") {
			t.Errorf("mutant %q: in %d clusters shards do not go as proposed", name, unlike)
		}
	}
}
