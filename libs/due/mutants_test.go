//go:build mutants

package due_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/mutanttest"
)

// TestMutants checks that the tests fail without a guard.
func TestMutants(t *testing.T) {
	mutanttest.Caught(t, []string{"turns", "damaged-shard", "no-clock"}, turns, damagedShard, clock)
}
