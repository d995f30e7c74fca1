package priority

import (
	"iter"
	"slices"
)

// First returns the first n elements of many, in order, and sorts few of the others: for looks at a
// large set from where there is little time. The order of the sequence does not matter; a random
// one costs least.
func First[E any](all iter.Seq[E], n int, compare func(a, b E) int) []E {
	var list []E
	cut := false // the list was cut once: what comes behind its first n is not among the first
	for e := range all {
		if n <= 0 || cut && compare(e, list[n-1]) >= 0 {
			continue
		}
		if list = append(list, e); len(list)-n >= n {
			slices.SortFunc(list, compare)
			clear(list[n:])
			list, cut = list[:n], true
		}
	}
	slices.SortFunc(list, compare)
	return list[:min(n, len(list))]
}
