package coordinator_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	house.Check(t, house.Rules{
		May: map[string][]string{
			".": {
				"libs/sharding", "libs/vclock", "libs/phi", "libs/mutant", "libs/table",
				"libs/gossip", "libs/splitbrain", "libs/allocation", "libs/lease", "libs/passivation", "libs/turn",
			},
			"server/...": {"libs/...", "proto/...", "services/coordinator/..."},
			"cmd/...":    {"libs/node", "services/coordinator/server/..."},
		},
		Never: []string{"services/region/...", "services/gateway/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:  []string{"."},
	})
}
