//go:build mutants && linux

package postgres

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants: without one of its guards, a process would acknowledge a commit that may be lost, or go on with a journal that went back.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, test := range map[string]func() bool{
		"commit-warning": func() bool { return cancelledWait(t) != "" },
		"journal-went-back": func() (failed bool) {
			wentBack(t, func(string, ...any) { failed = true })
			return failed
		},
	} {
		mutant.Activate(name)
		if !test() {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}
