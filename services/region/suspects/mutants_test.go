//go:build mutants

package suspects

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// failing only remembers that a test has failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Error(...any)          { f.failed = true }
func (f *failing) Errorf(string, ...any) { f.failed = true }

// TestMutants: suspects would run concurrently, or be noted to run alone, or wait forever, or be blamed for a core.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"suspects-alone", "suspects-company", "suspects-wait", "suspects-core", "suspects-other-core"} {
		mutant.Activate(name)
		f := &failing{TB: t}
		if testQueue(f); !f.failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
	mutant.Activate("suspects-killed")
	f := &failing{TB: t}
	if testEvidence(f); !f.failed {
		t.Error("mutant suspects-killed: no test fails")
	}
}
