package lease_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	floor := []string{"libs/sharding", "libs/mutant", "libs/backend", "libs/dial", "libs/kubeapi", "libs/lease/..."}
	house.Check(t, house.Rules{
		May:    map[string][]string{"...": floor},
		Never:  []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:   []string{"."},
		Impure: []string{"check.go", "keeper.go"},
	})
}
