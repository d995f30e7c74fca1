package discovery_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	layer := []string{"libs/setting", "libs/sharding", "libs/discovery/...", "libs/backendurl", "libs/kubeapi"}
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			"...":    layer,
			"joiner": append([]string{"libs/bootstrap", "libs/gossip"}, layer...), // a driver
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}
