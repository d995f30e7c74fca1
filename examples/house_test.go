package examples_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	// An example imports what a user may import, and no more.
	user := []string{"libs/adminclient", "libs/backends/all", "proto/...", "sdk/...", "services/region/server", "examples/..."}
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			"...": user,
			// The demonstration starts and kills a cluster; an application does not.
			"flights/cmd/flights": append([]string{"cli/cluster"}, user...),
			// A strategy for coordinators is not an entity.
			"pack":                      {"libs/allocation", "libs/sharding"},
			"pack/cmd/pack-coordinator": {"examples/pack", "libs/backends/all", "services/coordinator/server"},
		},
		Never: []string{"services/coordinator", "services/coordinator/operate", "services/gateway/...", "e2e/..."},
	})
}
