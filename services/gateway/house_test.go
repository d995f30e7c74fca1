package gateway_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	house.Check(t, house.Rules{
		May: map[string][]string{
			".": {
				"libs/sharding", "libs/vclock", "libs/phi", "libs/mutant", "libs/table",
				"libs/gossip", "libs/splitbrain", "libs/allocation", "libs/lease", "libs/passivation", "libs/turn", "libs/replies",
			},
			"server/...": {"libs/...", "proto/...", "services/gateway/..."},
			"cmd/...":    {"libs/node", "services/gateway/server/..."},
		},
		Never: []string{"services/coordinator/...", "services/region/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:  []string{"."},
	})
}
