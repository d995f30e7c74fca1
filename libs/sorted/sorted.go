// Package sorted sorts lists that are not on the way of a command. The functions of package slices are compiled
// once for each type of elements, with 10 to 25 KB in each region; these are compiled once for all.
//
// # What this does not do
//
// Lists that are sorted for each command are sorted by package slices, which is faster.
package sorted

import "sort"

// By sorts a list, as [slices.SortFunc] does, and returns it.
func By[T any](list []T, compare func(a, b T) int) []T {
	sort.Slice(list, func(i, k int) bool { return compare(list[i], list[k]) < 0 })
	return list
}

// StableBy sorts a list, as [slices.SortStableFunc] does: equal elements keep their order.
func StableBy[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, k int) bool { return compare(list[i], list[k]) < 0 })
}
