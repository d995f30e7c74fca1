package e2e_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			// The real cores, and nothing that owns a goroutine or a socket.
			"sim": {
				"libs/allocation", "libs/sharding", "libs/control", "libs/gossip", "libs/splitbrain", "libs/lease", "libs/routetable", "libs/passivation", "libs/turn", "libs/wakeup", "libs/outbox", "libs/purge", "libs/replies", "libs/pace",
				"libs/journal", "libs/journal/memory", "libs/link", "libs/router",
				"services/coordinator", "services/region", "services/region/suspects", "services/gateway",
			},
			"explore": {
				"libs/sharding", "libs/control", "libs/lease", "libs/turn", "libs/journal", "libs/journal/memory",
				"services/coordinator", "services/region",
			},
			// The real core, and the real encoding to measure it.
			"membership": {"libs/sharding", "libs/gossip", "libs/gossip/agent", "libs/gossip/gossiptest"},
			// A region as users build theirs.
			"cluster/cmd/...": {"libs/backends/all", "sdk/entity/...", "services/region/server", "e2e/cluster/history", "e2e/cluster/lists"},
			"cluster/lists":   {"sdk/entity", "e2e/cluster/history"},
			"attack/cmd/...":  {"libs/backends/all", "sdk/entity", "services/region/server"},
			// The subject is the real thing; its baseline knows nothing of it but
			// a message.
			"bench":          {"libs/...", "proto/...", "sdk/...", "services/region/...", "services/coordinator", "cli/cluster", "e2e/bench/...", "e2e/cluster/history", "e2e/cluster/netns"},
			"bench/cmd/...":  {"libs/backends/all", "libs/node", "libs/node/config", "services/region/server", "e2e/bench/..."},
			"bench/entities": {"sdk/entity"},
			"bench/baseline": {"proto/...", "e2e/bench/measure"},
			"bench/report":   {},
			// The clients and the judge use nothing of their subject.
			"cluster/load":    {"e2e/cluster/history"},
			"cluster/history": {},
			"cluster/ledger":  {"e2e/cluster/history"},
			"cluster/netns":   {"libs/test/servertest"},
			// Tests alone: they may import what they like.
			"attack":  {},
			"cluster": {},
			"vectors": {},
			// Binaries and files, as any user has them.
			"deploy":   {},
			"stranger": {},
		},
		// The same seed gives the same run, the same bounds the same search.
		Pure:     []string{"sim", "explore"},
		Undriven: []string{"sim", "explore"},
	})
}
