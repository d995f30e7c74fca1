//go:build mutants

package reads_test

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

// TestMutants checks that an entity that is damaged, and is loaded forever, is noticed.
func TestMutants(t *testing.T) {
	mutant.Activate("damaged-load")
	t.Cleanup(func() { mutant.Activate("") })
	n := noted{TB: t}
	if notLoaded(&n); !n.failed {
		t.Error("mutant damaged-load: no test fails")
	}
}
