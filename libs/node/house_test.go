package node_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	house.Check(t, house.Rules{
		May: map[string][]string{
			".":         {"libs/backend", "libs/bounded", "libs/gossip", "libs/node/histogram", "libs/sharding"},
			"histogram": {},
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}
