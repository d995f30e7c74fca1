//go:build mutants

package operate_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// noted only remembers that a test has failed.
type noted struct {
	testing.TB
	failed bool
}

func (n *noted) Errorf(string, ...any) { n.failed = true }

// TestMutants checks that the rules of operators' commands are needed.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"operate-doubt", "operate-epoch", "operate-timeout"} {
		mutant.Activate(name)
		n := noted{TB: t}
		machine(&n)
		timeouts(&n)
		if !n.failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}
