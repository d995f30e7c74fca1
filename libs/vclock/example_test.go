package vclock_test

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/vclock"
)

// Two nodes change copies of the same state independently.
func Example() {
	var base vclock.Clock[string]
	base = base.Tick("a")

	left := base.Tick("a")
	right := base.Tick("b")
	fmt.Println(base.Compare(left), left.Compare(right))

	both := left.Merge(right)
	fmt.Println(both, both.Compare(left))
	// Output:
	// before concurrent
	// [{a 2} {b 1}] after
}

// A node leaves permanently. Merging the clock of a node that has not heard of
// it yet brings the entry back, so prune after merging.
func ExampleClock_Keep() {
	members := []string{"a", "b"}
	isMember := func(node string) bool { return slices.Contains(members, node) }

	mine := vclock.Clock[string]{}.Tick("a").Tick("b")
	late := mine.Tick("gone")
	fmt.Println(mine.Merge(late))
	fmt.Println(mine.Merge(late).Keep(isMember))
	// Output:
	// [{a 1} {b 1} {gone 1}]
	// [{a 1} {b 1}]
}
