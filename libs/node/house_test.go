package node_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			".":          {"libs/atomicfile", "libs/backendurl", "libs/bounded", "libs/control", "libs/errornumber", "libs/foreign", "libs/gossip", "libs/node/auth", "libs/node/histogram", "libs/node/watchfile", "libs/rawconn", "libs/setting", "libs/sharding"},
			"auth":       {"libs/node/watchfile", "libs/setting", "libs/sharding"},
			"watchfile":  {},
			"histogram":  {},
			"otlpgrpc":   {"libs/node"},
			"slowest":    {"libs/sharding", "proto/..."},
			"member":     {"libs/bootstrap", "libs/control", "libs/discovery/...", "libs/gossip/...", "libs/node", "libs/setting", "libs/sharding", "libs/splitbrain"},
			"observe":    {"libs/bounded", "libs/control", "libs/diagnosis", "libs/node", "libs/sharding", "proto/..."},
			"progress":   {},
			"controlrpc": {"libs/control", "libs/control/wire", "libs/node", "libs/sharding", "proto/..."},
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}
