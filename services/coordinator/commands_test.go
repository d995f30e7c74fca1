package coordinator

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestJoin: of two versions with different inputs for a command, the table knows none, and
// promises only what both versions do.
func TestJoin(t *testing.T) {
	a := []sharding.CommandDesc{{Name: "Add", Input: 1}, {Name: "Get", ReadOnly: true, Stale: true, Input: 2}, {Name: "Old", Input: 3}}
	b := []sharding.CommandDesc{{Name: "Add", Input: 4}, {Name: "Get", ReadOnly: true, Input: 2}, {Name: "New", ReadOnly: true}}
	want := []sharding.CommandDesc{{Name: "Add"}, {Name: "Get", ReadOnly: true, Input: 2}, {Name: "New", ReadOnly: true}, {Name: "Old", Input: 3}}
	for _, got := range [][]sharding.CommandDesc{join(a, b), join(b, a)} {
		if !slices.Equal(got, want) {
			t.Errorf("joined: %+v", got)
		}
	}
}
