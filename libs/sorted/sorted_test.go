package sorted

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type pair struct{ a, b int }

func byA(x, y pair) int { return cmp.Compare(x.a, y.a) }

// TestAsSlices: lists have the same order as from package slices, of equal elements too, so that a simulation does not
// change with the function.
func TestAsSlices(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{random.IntN(1 + n/3), i}
		}
		want, stable := slices.Clone(list), slices.Clone(list)
		slices.SortFunc(want, byA)
		if got := By(slices.Clone(list), byA); !slices.Equal(got, want) {
			t.Fatalf("%d elements: got %v, want %v", n, got, want)
		}
		slices.SortStableFunc(want, byA)
		copy(want, list)
		slices.SortStableFunc(want, byA)
		if StableBy(stable, byA); !slices.Equal(stable, want) {
			t.Fatalf("%d elements, stable: got %v, want %v", n, stable, want)
		}
	}
}
