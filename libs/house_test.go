package libs_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	nouns := []string{"libs/setting", "libs/sharding", "libs/vclock", "libs/phi", "libs/latency"}
	with := func(more ...string) []string { return append(more, nouns...) }
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			"test/archtest":     {},
			"mutant":            {},
			"sharding":          {},
			"setting":           {},
			"setting/...":       {"libs/setting"},
			"sharding/...":      {"libs/sharding"},
			"vclock":            {},
			"phi":               {},
			"gossip":            with("libs/pace"),
			"gossip/agent":      with("libs/gossip", "libs/bounded", "libs/control", "libs/loop", "proto/..."),
			"gossip/...":        with("libs/gossip"),
			"bootstrap":         with("libs/gossip"),
			"splitbrain/...":    with("libs/gossip"),
			"allocation":        nouns,
			"allocation/...":    with("libs/allocation"),
			"passivation":       {},
			"heavyhitters":      {"libs/sharding"},
			"routetable":        nouns,
			"instance":          with("libs/foreign", "libs/turn", "libs/passivation"),
			"adminclient":       {"libs/bounded", "libs/sharding", "proto/..."},
			"turn":              with("libs/journal", "libs/passivation", "libs/heavyhitters", "libs/priority"),
			"due":               with("libs/journal", "libs/priority", "libs/backoff", "libs/storeclock"),
			"wakeup":            with("libs/journal", "libs/turn", "libs/due", "libs/priority", "libs/storeclock"),
			"purge":             with("libs/journal", "libs/due"),
			"outbox":            with("libs/journal", "libs/turn", "libs/due"),
			"replies":           nouns,
			"router":            with("libs/control", "libs/routetable", "libs/replies", "libs/backoff"),
			"router/driver":     with("libs/router", "libs/control", "libs/link", "libs/loop"),
			"atomicfile":        {},
			"backendurl":        {},
			"priority":          {},
			"entitylist":        {"libs/sharding"},
			"backoff":           {},
			"conn":              {},
			"kubeapi":           {"libs/backendurl"},
			"link/...":          with("libs/conn", "proto/..."),
			"latency":           {},
			"control":           {"libs/sharding", "libs/latency"},
			"control/wire":      {"libs/control", "libs/sharding", "libs/latency", "proto/..."},
			"factstream":        {"libs/control/wire", "libs/control", "libs/sharding", "proto/..."},
			"diagnosis":         {"libs/bounded", "libs/control", "libs/sharding", "proto/roost/admin/v1/diagnosis", "proto/roost/inspection/v1"},
			"test/servertest":   {},
			"test/scenariotest": {},
			"test/testbin":      {},
			"test/mutanttest":   {"libs/mutant"},
			"errornumber":       {"libs/sharding"},
			"bounded":           {"libs/errornumber", "libs/sharding"},
			"foreign":           {},
			"loop":              {"libs/foreign"},
			"pace":              {},
			"storeclock":        with(),
			// The vocabulary and the rules; what runs them is above.
			"journal":                   {"libs/setting", "libs/sharding"},
			"journal/memory":            {"libs/journal", "libs/journal/clock", "libs/sharding"},
			"journal/clock":             {"libs/journal", "libs/sharding"},
			"journal/commit":            {"libs/journal", "libs/sharding", "libs/storeclock"},
			"journal/backup":            {"libs/journal", "libs/sharding"},
			"journal/spread":            {"libs/journal", "libs/sharding"},
			"journal/open":              {"libs/journal", "libs/journal/...", "libs/sharding", "libs/backendurl"},
			"journal/journaltest":       {"libs/journal", "libs/journal/...", "libs/sharding"},
			"journal/spread/spreadtest": {"libs/journal", "libs/journal/journaltest", "libs/journal/spread", "libs/sharding"},
		},
		Outside: []string{
			"github.com/cespare/xxhash/v2",
			"github.com/twitchtv/twirp",
			"google.golang.org/protobuf",
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure: []string{
			"sharding", "vclock", "phi", "latency", "control", "control/wire", "gossip", "gossip/gossiptest", "bootstrap", "splitbrain", "allocation", "passivation", "heavyhitters", "routetable", "turn", "instance", "due", "wakeup", "purge", "outbox", "replies", "router", "priority", "entitylist", "backoff", "pace", "storeclock", "errornumber", "foreign", "diagnosis", "factstream", "setting",
			"link/readers.go",
			// The law of the journal, and the memory that the simulation runs on.
			"journal", "journal/memory", "journal/spread/note.go",
		},
		Impure: []string{"instance/explain.go", "diagnosis/describe.go", "diagnosis/explain.go", "diagnosis/observer.go", "journal/memory/backend.go"},
		// What a backend of a journal must do is at the interface.
		Undriven: []string{"journal", "journal/memory", "journal/spread/note.go", "sharding", "instance", "vclock", "latency", "control", "control/wire", "gossip/gossiptest", "allocation", "passivation", "heavyhitters", "due", "priority", "entitylist", "backoff", "pace", "storeclock", "errornumber", "foreign", "diagnosis", "factstream", "setting"},
	})
}
