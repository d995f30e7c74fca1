package examples_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	// An example imports what a user may import, and no more.
	house.Check(t, house.Rules{
		May:   map[string][]string{"...": {"libs/node", "proto/...", "sdk/...", "services/region/server", "examples/..."}},
		Never: []string{"services/coordinator/...", "services/gateway/...", "cli/...", "e2e/..."},
	})
}
