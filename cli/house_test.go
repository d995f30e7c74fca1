package cli_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	house.Check(t, house.Rules{
		May:   map[string][]string{"...": {"libs/...", "proto/...", "sdk/...", "cli/..."}},
		Never: []string{"services/...", "examples/...", "e2e/..."},
	})
}
