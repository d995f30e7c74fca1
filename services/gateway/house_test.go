package gateway_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	house.Check(t, house.Rules{
		May: map[string][]string{
			".":          {"libs/sharding", "libs/mutant", "libs/table", "libs/replies"},
			"server/...": {"libs/...", "proto/...", "services/gateway/..."},
			"cmd/...":    {"services/gateway/server/..."},
		},
		Never: []string{"services/coordinator/...", "services/region/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:  []string{"."},
	})
}
