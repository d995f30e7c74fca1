package discovery_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/archtest"
)

func TestHouse(t *testing.T) {
	floor := []string{"libs/sharding", "libs/discovery/...", "libs/backendurl", "libs/kubeapi"}
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			"...":    floor,
			"joiner": append([]string{"libs/bootstrap", "libs/gossip"}, floor...), // a driver
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}
