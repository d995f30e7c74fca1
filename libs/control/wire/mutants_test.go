//go:build mutants

package wire_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestMutants: a process of a release without shard rules would see a type that has one, and hash
// whole ids of it.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "ruled-apart"} {
		mutant.Activate(name)
		types := []sharding.TypeDesc{{Type: "A", Shards: 4, Rule: sharding.ShardRule{Separator: "/"}}}
		seen := wire.Encode(control.Register{Types: types}).GetRegister().GetTypes()
		if (len(seen) > 0) != (name != "") {
			t.Errorf("mutant %q: it sees %v", name, seen)
		}
	}
}
