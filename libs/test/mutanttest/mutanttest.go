//go:build mutants

package mutanttest

import (
	"runtime"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// Caught checks that, with each of the named mutants, at least one of the tests fails.
func Caught(t *testing.T, names []string, tests ...func(testing.TB)) {
	t.Helper()
	for _, name := range names {
		mutant.Activate(name)
		caught := &failures{TB: t}
		for i := 0; i < len(tests) && !caught.failed; i++ {
			caught.run(tests[i])
		}
		mutant.Activate("")
		if !caught.failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}

// failures takes the failures of tests.
type failures struct {
	testing.TB
	failed bool
}

// run runs a test in a goroutine of its own, which a fatal failure ends.
func (f *failures) run(test func(testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
}

func (f *failures) Helper()               {}
func (f *failures) Error(...any)          { f.failed = true }
func (f *failures) Errorf(string, ...any) { f.failed = true }
func (f *failures) Fatal(...any)          { f.failed = true; runtime.Goexit() }
func (f *failures) Fatalf(string, ...any) { f.failed = true; runtime.Goexit() }
