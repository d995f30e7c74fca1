package libs_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/archtest"
)

func TestHouse(t *testing.T) {
	nouns := []string{"libs/setting", "libs/sharding", "libs/vclock", "libs/phi", "libs/mutant", "libs/latency"}
	with := func(more ...string) []string { return append(more, nouns...) }
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			"archtest":       {},
			"mutant":         {},
			"sharding":       {},
			"setting":        {},
			"setting/...":    {"libs/setting"},
			"sharding/...":   {"libs/sharding"},
			"vclock":         {"libs/mutant"},
			"phi":            {"libs/mutant"},
			"gossip":         with("libs/pace"),
			"gossip/agent":   with("libs/gossip", "libs/bounded", "libs/control", "libs/loop", "proto/..."),
			"gossip/...":     with("libs/gossip"),
			"bootstrap":      with("libs/gossip"),
			"splitbrain/...": with("libs/gossip"),
			"allocation":     nouns,
			"allocation/...": with("libs/allocation"),
			"passivation":    {},
			"heavyhitters":   {"libs/sharding"},
			"routetable":     nouns,
			"turn":           with("libs/passivation", "libs/heavyhitters", "libs/priority"),
			"instance":       with("libs/turn", "libs/passivation"),
			"wakeup":         with("libs/turn", "libs/priority", "libs/backoff", "libs/storeclock"),
			"purge":          with("libs/backoff", "libs/storeclock"),
			"outbox":         with("libs/turn", "libs/priority", "libs/backoff", "libs/storeclock"),
			"replies":        nouns,
			"router":         with("libs/control", "libs/routetable", "libs/replies", "libs/backoff"),
			"router/driver":  with("libs/router", "libs/control", "libs/link", "libs/loop"),
			"atomicfile":     {},
			"backendurl":     {},
			"priority":       {},
			"entitylist":     {"libs/sharding"},
			"backoff":        {},
			"dial":           {},
			"rawconn":        {},
			"kubeapi":        {"libs/backendurl"},
			"link/...":       with("libs/rawconn", "proto/..."),
			"latency":        {},
			"control":        {"libs/sharding", "libs/latency", "libs/mutant"},
			"control/wire":   {"libs/control", "libs/sharding", "libs/latency", "proto/..."},
			"factstream":     {"libs/control/wire", "libs/control", "libs/mutant", "libs/sharding", "proto/..."},
			"diagnosis":      {"libs/sharding", "proto/..."},
			"checkup":        {"proto/..."},
			"servertest":     {},
			"scenariotest":   {},
			"testbin":        {},
			"errornumber":    {},
			"adminclient":    {"libs/bounded", "libs/sharding", "proto/..."},
			"bounded":        {"libs/errornumber"},
			"loop":           {},
			"pace":           {},
			"storeclock":     with("libs/mutant"),
		},
		Outside: []string{
			"github.com/cespare/xxhash/v2",
			"github.com/twitchtv/twirp",
			"google.golang.org/protobuf",
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure: []string{
			"sharding", "vclock", "phi", "latency", "control", "control/wire", "gossip", "gossip/gossiptest", "bootstrap", "splitbrain", "allocation", "passivation", "heavyhitters", "routetable", "turn", "instance", "wakeup", "purge", "outbox", "replies", "router", "priority", "entitylist", "backoff", "pace", "storeclock", "errornumber", "diagnosis", "checkup", "factstream", "setting",
			"link/readers.go",
		},
		Undriven: []string{"sharding", "instance", "vclock", "latency", "control", "control/wire", "gossip/gossiptest", "allocation", "passivation", "heavyhitters", "priority", "entitylist", "backoff", "pace", "storeclock", "errornumber", "diagnosis", "checkup", "factstream", "setting"},
		// It looks at types, for the texts of errors.
		Impure: []string{"instance/explain.go"},
	})
}
