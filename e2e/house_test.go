package e2e_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	house.Check(t, house.Rules{
		May: map[string][]string{
			// The real cores, and nothing that owns a goroutine or a socket.
			"sim/...": {
				"libs/...", "sdk/entity/...", "e2e/sim/...",
				"services/coordinator", "services/region", "services/gateway",
			},
			// The real core, and the real encoding to measure it.
			"membership":  {"libs/...", "proto/..."},
			"explore/...": {"libs/...", "services/coordinator", "services/region"},
			// The real cores, one at a time.
			"vectors": {"libs/...", "services/coordinator", "services/gateway"},
			// A region as users build theirs.
			"cluster/cmd/...": {"sdk/entity/...", "services/region/server", "e2e/cluster/history"},
			// What is measured is the real thing; what it is compared with knows
			// nothing of it but a message.
			"bench":          {"libs/...", "proto/...", "sdk/...", "services/region/...", "cli/cluster", "e2e/bench/...", "e2e/cluster/load", "e2e/cluster/history", "e2e/cluster/netns"},
			"bench/cmd/...":  {"libs/node", "services/region/server", "e2e/bench/..."},
			"bench/entities": {"sdk/entity"},
			"bench/baseline": {"proto/...", "e2e/bench/measure"},
			"bench/measure":  {},
			"bench/report":   {},
			// The clients and the judge use nothing of what they judge.
			"cluster/load":    {"e2e/cluster/history"},
			"cluster/history": {},
			// Binaries and files, as any user has them.
			"deploy": {},
			// Real processes are spoken to as any user would.
			"...": {"proto/...", "sdk/client/...", "cli/cluster", "libs/servertest", "e2e/..."},
		},
	})
}
