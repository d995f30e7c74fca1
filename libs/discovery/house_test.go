package discovery_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	floor := []string{"libs/sharding", "libs/discovery/...", "libs/backend", "libs/kubeapi"}
	house.Check(t, house.Rules{
		May: map[string][]string{
			"...":    floor,
			"joiner": append([]string{"libs/bootstrap", "libs/gossip"}, floor...), // a driver
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}
