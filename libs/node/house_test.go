package node_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			".":          {"libs/backendurl", "libs/bounded", "libs/gossip", "libs/node/histogram", "libs/sharding"},
			"histogram":  {},
			"member":     {"libs/bootstrap", "libs/discovery/...", "libs/gossip/...", "libs/node", "libs/splitbrain"},
			"controlrpc": {"libs/control", "libs/control/wire", "libs/node", "libs/sharding", "proto/..."},
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}
