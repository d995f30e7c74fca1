package journal_test

import (
	"errors"
	"math"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestRestore: a restored journal has another generation, and fences above everything that was given
// out, in the backup and in what it replaces.
func TestRestore(t *testing.T) { restore(t.Errorf) }

func restore(errorf func(format string, args ...any)) {
	at := sharding.MakeEpoch
	for _, test := range []struct {
		backup, replaced sharding.Epoch
		want             sharding.Epoch // 0: refused
	}{
		{0, 0, at(journal.RestoreTerms, 0)},
		{at(3, 7), 0, at(3+journal.RestoreTerms, 0)},
		{at(3, 7), at(2, math.MaxUint32), at(3+journal.RestoreTerms, 0)},
		{at(3, 7), at(4, 0), at(4+journal.RestoreTerms, 0)},
		{at(math.MaxUint32-2*journal.RestoreTerms, 7), 0, at(math.MaxUint32-journal.RestoreTerms, 0)},
		{at(math.MaxUint32-2*journal.RestoreTerms+1, 7), 0, 0},
		{0, at(math.MaxUint32, 7), 0},
	} {
		f := journal.NewFacts(7)
		f.Cluster, f.MaxEpoch = "blue", test.backup
		got, fence, err := f.Restore(8, test.replaced)
		if test.want == 0 {
			if !errors.Is(err, journal.ErrIdentity) {
				errorf("from %v and %v: %v, %v", test.backup, test.replaced, got, err)
			}
			continue
		}
		want := f
		want.Generation, want.MaxEpoch = 8, test.want
		if err != nil || got.Generation != 8 || got.Cluster != "blue" || got.MaxEpoch != test.want || fence != (sharding.Fence{Epoch: test.want}) {
			errorf("from %v and %v: %+v, fence %v, %v; want %+v", test.backup, test.replaced, got, fence, err, want)
		}
	}
}
